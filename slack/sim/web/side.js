// The sidebar: who one is, and the conversations, each a line with a lamp that lights up when there is something new.

import { h, swap, place, icon } from "./dom.js";
import { avatar, badge } from "./message.js";

export class Side {
  constructor(page) {
    this.page = page;
    this.rooms = document.getElementById("rooms");
    this.who = document.getElementById("who");
    this.lines = new Map(); // room -> {key, e}
    this.sections = new Map(); // title -> {e, list}
    this.rooms.addEventListener("keydown", (ev) => this.keys(ev));
  }

  draw() {
    const { store, me } = this.page;
    document.getElementById("team").textContent = store.team;
    this.drawWho();
    const { mine, open } = store.rooms(me);
    const rooms = mine.filter((c) => c.kind !== "im" && c.kind !== "mpim").sort(byName);
    const talks = mine.filter((c) => (c.kind === "im" || c.kind === "mpim") && !c.app);
    const held = document.activeElement?.dataset?.room;
    place(this.rooms, [
      this.section("Channels", [...rooms.map((c) => this.line(c)), ...open.sort(byName).map((c) => this.line(c, true))]),
      talks.length ? this.section("Direct messages", talks.map((c) => this.line(c))) : null,
      store.apps.size ? this.section("Apps", [...store.apps.values()].map((a) => this.app(a, mine))) : null,
    ].filter(Boolean));
    const lines = [...this.rooms.querySelectorAll(".line")];
    const stop = lines.find((l) => held && l.dataset.room === held) || lines.find((l) => l.getAttribute("aria-current")) || lines[0];
    for (const l of lines) l.tabIndex = l === stop ? 0 : -1;
    if (held && document.activeElement !== stop) stop?.focus({ preventScroll: true });
  }

  section(title, lines) {
    let s = this.sections.get(title);
    if (!s) {
      const id = "s-" + title.replace(/\W/g, "").toLowerCase();
      const list = h("ul");
      s = { list, e: h("section", { class: "section", "aria-labelledby": id }, h("h2", { id }, title), list) };
      this.sections.set(title, s);
    }
    place(s.list, lines);
    return s.e;
  }

  // kept gives the line of a conversation as it stands, if it still looks the same: a line that is put in another's place
  // while it is pressed gets no click.
  kept(room, looks, make) {
    const key = JSON.stringify(looks);
    const old = this.lines.get(room);
    if (old?.key === key) return old.e;
    const e = h("li", {}, make());
    this.lines.set(room, { key, e });
    return e;
  }

  line(c, outside) {
    const { store, me } = this.page;
    const name = store.called(c, me);
    const news = outside ? { count: 0, mentions: 0 } : this.page.news(c.id);
    const here = this.page.channel === c.id && this.page.pane !== "list";
    const other = c.kind === "im" ? store.people.get(c.members.find((id) => id !== me) || me) : null;
    const sign = other ? avatar(other) : icon({ private: "lock", shared: "shared" }[c.kind] || "hash");
    const says = [name, c.kind === "private" ? "private channel" : "", c.kind === "shared" ? "shared with another organisation" : "", outside ? "not joined" : "",
      news.mentions ? `${news.mentions} for you` : news.count ? `${news.count} new` : ""].filter(Boolean).join(", ");
    return this.kept(c.id, [says, news.count, here, outside, c.archived, c.kind, other?.id, other?.kind], () => h("button", {
      type: "button", class: "line" + (news.count ? " unread" : "") + (outside ? " outside" : "") + (c.archived ? " outside" : ""), tabindex: "-1", "aria-current": here ? "page" : null, "aria-label": says,
      dataset: { testid: "channel-" + (c.name || c.id), room: c.id }, on: { click: () => this.page.go({ channel: c.id, thread: "", pane: "talk", tab: "" }) },
    }, h("span", { class: "sign" }, sign), h("bdi", { class: "line-name" }, name), other ? badge(other) : null,
    news.mentions ? h("span", { class: "news" }, news.mentions) : news.count ? h("span", { class: "lamp on" }) : null));
  }

  app(a, mine) {
    const c = mine.find((x) => x.app === a.id);
    const news = c ? this.page.news(c.id) : { count: 0 };
    const here = c && this.page.channel === c.id && this.page.pane !== "list";
    return this.kept(a.id, [a.name, news.count, here], () => h("button", {
      type: "button", class: "line" + (news.count ? " unread" : ""), tabindex: "-1", "aria-current": here ? "page" : null, "aria-label": a.name + ", app" + (news.count ? `, ${news.count} new` : ""),
      dataset: { testid: "channel-" + a.name, room: a.id }, on: { click: () => this.page.openApp(a) },
    }, h("span", { class: "sign" }, avatar(null, a)), h("bdi", { class: "line-name" }, a.name), h("span", { class: "badge app" }, "app"), news.count ? h("span", { class: "news" }, news.count) : null));
  }

  drawWho() {
    const p = this.page.store.people.get(this.page.me);
    const b = this.whoButton || (this.whoButton = h("button", {
      type: "button", class: "who-button", "aria-haspopup": "menu", "aria-expanded": "false", dataset: { testid: "person-switch" }, on: { click: () => this.choose() },
    }));
    const key = JSON.stringify(p || null);
    if (key === this.whoKey) return;
    this.whoKey = key;
    b.setAttribute("aria-label", p ? `You are ${p.name}. Be somebody else` : "Nobody is here yet");
    swap(b, p ? avatar(p) : null, h("span", { class: "who-words" }, h("small", {}, "You are"), h("bdi", {}, p?.name || "nobody")), p ? badge(p) : null, icon("caret"));
    if (!b.isConnected) swap(this.who, b);
  }

  choose() {
    const people = this.page.crowd();
    this.page.menu(this.whoButton, people.map((p) => [
      p.name, () => this.page.go({ me: p.id, thread: "" }), "person", { testid: "person-" + p.id, checked: p.id === this.page.me, face: avatar(p), note: badge(p) || (p.admin ? h("span", { class: "badge" }, "admin") : null) },
    ]), { label: "Who you are", below: true });
  }

  keys(ev) {
    const lines = [...this.rooms.querySelectorAll(".line")];
    const at = lines.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1 }[ev.key];
    if (to === undefined || at < 0) return;
    ev.preventDefault();
    const l = lines[Math.max(0, Math.min(lines.length - 1, to))];
    for (const x of lines) x.tabIndex = x === l ? 0 : -1;
    l.focus();
  }
}

function byName(a, b) {
  return (a.name || "").localeCompare(b.name || "");
}
