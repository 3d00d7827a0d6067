// The page: which conversation is shown to whom, and what people do there. The address after # says it (who, where, which
// thread), so that a window can be kept, sent or opened twice, as two people.

import { h, icon } from "./dom.js";
import { Store } from "./store.js";
import { Side } from "./side.js";
import { Talk } from "./talk.js";
import { Modal, ask, menu } from "./modal.js";
import { Inspector } from "./inspector.js";
import { typed } from "./compose.js";
import { author } from "./message.js";
import { href } from "./inline.js";

class Page {
  constructor() {
    this.store = new Store();
    this.me = "";
    this.channel = "";
    this.thread = "";
    this.tab = "";
    this.pane = "";
    this.seen = {}; // person -> channel -> ts up to which they have read
    this.ratings = new Map();
    this.dismissed = new Set();
    this.lookedAt = ""; // the channel that was on the screen before the DM with an app
    this.mine = new Set(); // messages that were written on this page: the bot's answers to them are opened
    this.side = new Side(this);
    this.talk = new Talk(this);
    this.modal = new Modal(this);
    this.inspector = new Inspector(this);
    this.store.watch((e) => this.changed(e));
    window.addEventListener("hashchange", () => this.fromAddress());
    document.addEventListener("keydown", (ev) => this.keys(ev));
    document.getElementById("skip").addEventListener("click", (ev) => {
      ev.preventDefault();
      this.go({ pane: "talk" });
      requestAnimationFrame(() => this.talk.focus());
    });
    this.pressed = false; // a pointer is held down
    document.addEventListener("pointerdown", () => { this.pressed = true; }, true);
    for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => this.release(), true);
    document.addEventListener("pointermove", (ev) => { if (this.pressed && !ev.buttons) this.release(); }, true);
    window.addEventListener("blur", () => this.release());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.read(); });
    this.store.start();
  }

  get names() {
    return this.store.names(this.me);
  }

  // crowd gives those whom one can be: people, not bots.
  crowd() {
    const order = { member: 0, guest: 1, single_guest: 2, external: 3, stranger: 4 };
    return [...this.store.people.values()].filter((p) => p.kind !== "bot" && !p.app)
      .sort((a, b) => (order[a.kind || "member"] ?? 0) - (order[b.kind || "member"] ?? 0) || a.name.localeCompare(b.name));
  }

  fromAddress() {
    const q = new URLSearchParams(location.hash.slice(1));
    this.me = q.get("as") || "";
    this.channel = q.get("in") || "";
    this.thread = q.get("thread") || "";
    this.tab = q.get("tab") || "";
    this.pane = q.get("pane") || "";
    this.settle();
    this.draw();
  }

  // settle chooses what the address leaves open.
  settle() {
    const crowd = this.crowd();
    if (!crowd.some((p) => p.id === this.me)) this.me = crowd[0]?.id || "";
    const { mine, open } = this.store.rooms(this.me);
    if (!mine.some((c) => c.id === this.channel) && !open.some((c) => c.id === this.channel)) {
      const hint = this.store.suggestions.map((s) => s.channel).find((id) => mine.some((c) => c.id === id));
      this.channel = hint || mine.filter((c) => c.name).sort((a, b) => a.name.localeCompare(b.name))[0]?.id || mine[0]?.id || "";
      this.thread = "";
      this.tab = "";
    }
    if (this.thread && !this.store.in(this.channel, this.me, this.thread).length) this.thread = "";
    if (!this.thread && this.pane === "thread") this.pane = "talk";
    if (!this.pane) this.pane = this.thread ? "thread" : "talk";
    document.body.dataset.pane = this.pane;
    this.startReading();
  }

  // go shows something else; it can be taken back with the browser's button.
  go(to, replace) {
    const was = this.me;
    Object.assign(this, { me: this.me, channel: this.channel, thread: this.thread, tab: this.tab, pane: this.pane }, to);
    this.settle();
    const q = new URLSearchParams({ as: this.me, in: this.channel });
    if (this.thread) q.set("thread", this.thread);
    if (this.tab) q.set("tab", this.tab);
    if (this.pane === "list") q.set("pane", "list");
    else if (this.thread && this.pane === "talk") q.set("pane", "talk");
    if ("#" + q !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", "#" + q);
    if (was !== this.me) this.say(`You are ${this.names.user(this.me)} now`);
    this.draw();
  }

  // open shows a thread.
  open(channel, thread, focus) {
    this.go({ channel, thread, pane: "thread", tab: "" });
    if (focus) requestAnimationFrame(() => this.talk.focusThread());
  }

  closeThread() {
    const from = this.thread;
    this.go({ thread: "", pane: "talk" });
    requestAnimationFrame(() => {
      const e = this.talk.list.shown.get(from)?.e;
      if (e) e.focus({ preventScroll: true });
      else this.talk.focus();
    });
  }

  // openApp shows the DM with an app, and tells the app that somebody came.
  async openApp(app, tab = "messages") {
    await this.tried(async () => {
      let c = this.store.rooms(this.me).mine.find((x) => x.app === app.id);
      if (!c) {
        const got = await this.store.act("im", { from: this.me, app: app.id });
        await this.store.refresh();
        c = this.store.channels.get(got.channel);
      }
      if (this.store.channels.get(this.channel)?.kind !== "im") this.lookedAt = this.channel;
      if (c) this.go({ channel: c.id, thread: "", pane: "talk", tab: tab === "home" ? "home" : "" });
      await this.store.act("home", { from: this.me, app: app.id, tab, looking: this.lookedAt });
    });
  }

  changed(e) {
    if (e === undefined) {
      this.drawConnection();
      return;
    }
    if (e === null) {
      if (this.started) this.settle();
      else {
        this.started = true;
        this.fromAddress();
      }
      this.drawConnection();
      this.inspector.drawFaults();
      this.draw();
      return;
    }
    this.announce(e);
    this.follow(e);
    this.inspector.add(e);
    this.draw();
  }

  // follow opens the thread in which the bot begins to answer what was just written here, if there is room for it.
  follow(e) {
    const thread = e.session?.thread || e.message?.thread || "";
    if (!thread || !this.mine.has(e.channel + thread) || !["status", "posted", "began"].includes(e.what)) return;
    if (e.what === "status" && !e.session?.words && e.session?.state !== "processing") return;
    this.mine.delete(e.channel + thread);
    if (this.channel === e.channel && !this.thread && !this.tab && window.innerWidth > 900) this.go({ thread, pane: "talk" });
  }

  // announce tells a screen reader what is new; a streamed text when it is whole.
  announce(e) {
    const m = e.message;
    if (!m || m.channel !== this.channel || m.user === this.me || (m.to && m.to !== this.me)) return;
    if (!["said", "posted", "whispered", "stopped", "halted", "expired"].includes(e.what)) return;
    const { p } = author(m, this.store);
    this.say(`${p.name}: ${this.plain(e.text || m.text).slice(0, 600)}`);
  }

  say(words) {
    const box = document.getElementById("announce");
    box.append(h("p", {}, words));
    while (box.children.length > 4) box.firstChild.remove();
  }

  // plain gives the words of a text without Slack's markup.
  plain(text) {
    return typed(text || "", this.store).replace(/[*_~`]/g, "");
  }

  release() {
    this.pressed = false;
    if (this.late) this.draw();
  }

  // draw brings the page up to date, at most once a frame. While a pointer is held down it waits: a button that is drawn
  // anew under the pointer gets no click, and what is being marked would be lost.
  draw() {
    this.late = this.pressed;
    if (this.drawing || this.late) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (this.pressed) {
        this.late = true;
        return;
      }
      this.talk.draw(); // first, since it marks what is new before it counts as read
      this.read();
      this.side.draw();
      this.modal.draw();
      const c = this.store.channels.get(this.channel);
      document.title = `${c ? (c.name ? "#" : "") + this.store.called(c, this.me) : "Playground"} – ${this.store.team}`;
    });
  }

  drawConnection() {
    const lamp = document.getElementById("connection");
    const says = this.store.live ? "connected" : "not connected";
    lamp.className = "lamp " + (this.store.live ? "ok" : "off");
    lamp.title = says;
    lamp.setAttribute("aria-label", says);
    const banner = document.getElementById("banner");
    clearTimeout(this.bannerSoon);
    if (this.store.live) banner.hidden = true;
    else this.bannerSoon = setTimeout(() => { banner.hidden = this.store.live; }, 600);
  }

  // startReading takes what is there when a person is first chosen as read.
  startReading() {
    if (!this.me || this.seen[this.me]) return;
    const seen = (this.seen[this.me] = {});
    for (const c of this.store.channels.keys()) {
      const list = this.store.in(c, this.me);
      seen[c] = list.length ? list[list.length - 1].ts : "0";
    }
  }

  // read marks the conversation on the screen as read.
  read() {
    const seen = this.seen[this.me];
    if (!seen || document.hidden || !this.channel || this.tab === "home") return;
    const list = this.store.in(this.channel, this.me);
    const last = list[list.length - 1]?.ts || "0";
    if (last > (seen[this.channel] || "0") && (!this.talk.list || this.talk.list.stick || this.talk.of !== this.channel)) seen[this.channel] = last;
  }

  // news counts what a person has not read in a channel: messages by others, and those of them that name the person.
  news(channel) {
    const from = this.seen[this.me]?.[channel] || "0";
    const fresh = this.store.in(channel, this.me).filter((m) => m.ts > from && m.user !== this.me && !m.subtype?.includes("join"));
    const direct = this.store.channels.get(channel)?.kind === "im";
    return { count: fresh.length, mentions: direct ? fresh.length : fresh.filter((m) => this.mentions(m)).length, from };
  }

  mentions(m) {
    return m.user !== this.me && (m.text || "").includes(`<@${this.me}>`);
  }

  // working tells in a few words that an app is at work in a thread, or "".
  working(channel, thread) {
    const s = this.store.session(channel, thread);
    if (!s || (!s.words && s.state !== "processing")) return "";
    const app = this.store.apps.get(s.app)?.name || "The app";
    return `${app} ${s.words || "is working…"}`;
  }

  // at says what can be done with the blocks of a message (see blocks.js).
  at(m) {
    const c = this.store.channels.get(m.channel);
    const inside = c?.members.includes(this.me);
    return {
      names: this.names,
      act: inside && m.app ? (e, block, value) => this.clickMessage(m, e, value) : null,
      confirm: ask,
      rated: (e, value) => this.ratings.set([m.channel, m.ts, e.action_id, this.me].join(), value),
      rating: (e) => this.ratings.get([m.channel, m.ts, e.action_id, this.me].join()),
    };
  }

  async clickMessage(m, e, value) {
    this.leave(e.url);
    return this.tried(() => this.store.act("click", { from: this.me, channel: m.channel, ts: m.ts, action: e.action_id, value: chosen(value) }));
  }

  async clickView(v, e, value) {
    this.leave(e.url);
    return this.tried(() => this.store.act("click", { from: this.me, view: v.id, action: e.action_id, value: chosen(value) }));
  }

  // leave opens the address of a button, if it may be followed.
  leave(url) {
    const to = url && href(url);
    if (to) window.open(to, "_blank", "noopener,noreferrer");
    else if (url) this.toast("This address cannot be followed: " + url);
  }

  submitView(v, state) {
    return this.tried(() => this.store.act("submit", { from: this.me, view: v.id, values: state }));
  }

  closeView(v) {
    return this.tried(() => this.store.act("close", { from: this.me, view: v.id }));
  }

  ask(c) {
    return ask(c);
  }

  menu(anchor, items, o) {
    menu(anchor, items, o);
  }

  // post writes a message; what begins with a slash and is a command of an app goes to the app.
  async post(channel, thread, text, files) {
    const m = /^\/([a-z][\w-]*)(?:\s+([\s\S]*))?$/.exec(text);
    if (m && !thread && !files.length) {
      await this.store.act("slash", { from: this.me, channel, command: "/" + m[1], text: m[2] || "" });
      return;
    }
    const looking = this.store.channels.get(channel)?.app ? this.lookedAt : "";
    const got = await this.store.act("say", { from: this.me, channel, thread, text, typed: true, files, looking });
    if (!thread && got.ts) this.mine.add(channel + got.ts);
    if (got.ts && !thread) this.early(channel, got.ts);
  }

  // early catches an answer that began before the simulator told this page how its own message is called.
  early(channel, ts) {
    const s = this.store.session(channel, ts);
    if (s && (s.words || s.state === "processing")) this.follow({ what: "status", channel, session: s });
    else if (this.store.replies(channel, ts).length) this.follow({ what: "posted", channel, message: { thread: ts } });
  }

  stop(s) {
    return this.tried(() => this.store.act("stop", { from: this.me, channel: s.channel, thread: s.thread }));
  }

  join(c) {
    return this.tried(() => this.store.act("join", { from: this.me, channel: c.id }));
  }

  react(m, name) {
    return this.tried(() => this.store.act("react", { from: this.me, channel: m.channel, ts: m.ts, name }));
  }

  edit(m) {
    this.talk.edit(m);
  }

  async saveEdit(m, text) {
    await this.tried(() => this.store.act("edit", { from: this.me, channel: m.channel, ts: m.ts, text }));
  }

  async remove(m) {
    if (await ask({ title: "Delete this message?", text: "It is gone for everybody. What the bot is doing about it ends.", confirm: "Delete", style: "danger" })) {
      await this.tried(() => this.store.act("delete", { from: this.me, channel: m.channel, ts: m.ts }));
    }
  }

  // shortcuts are what the apps offer to do about a message, as items of its menu.
  shortcuts(m) {
    return [...this.store.apps.values()].flatMap((a) => (a.shortcuts || []).map((s) => [
      s.name, () => this.tried(() => this.store.act("shortcut", { from: this.me, app: a.id, callback: s.callback, channel: m.channel, ts: m.ts })),
    ]));
  }

  dismiss(m) {
    this.store.take(m.channel, m.ts);
    this.draw();
  }

  async copy(m) {
    try {
      await navigator.clipboard.writeText(this.plain(m.text));
    } catch {
      this.toast("The browser does not let this page copy.");
    }
  }

  // tried does something, and says it where that fails.
  async tried(f) {
    try {
      return await f();
    } catch (err) {
      this.toast(err.message);
      return undefined;
    }
  }

  toast(words) {
    const t = h("div", { class: "toast" }, h("span", {}, words), h("button", { type: "button", class: "icon-button", "aria-label": "Dismiss", on: { click: () => t.remove() } }, icon("close")));
    const box = document.getElementById("toasts");
    box.append(t);
    while (box.children.length > 3) box.firstChild.remove();
    setTimeout(() => t.remove(), 8000);
  }

  keys(ev) {
    const typing = ev.target.closest?.("input, textarea, select, [contenteditable]");
    if (ev.key === "Escape" && !document.querySelector("dialog[open], .menu")) {
      if (this.talk.cancelEdit()) return;
      if (this.inspector.open && document.getElementById("inspector").contains(ev.target)) this.inspector.toggle(false);
      else if (this.thread) this.closeThread();
      return;
    }
    if (typing || ev.ctrlKey || ev.metaKey || ev.altKey || document.querySelector("dialog[open]")) return;
    if (ev.key === "i") {
      ev.preventDefault();
      this.inspector.toggle();
    }
  }
}

// chosen gives the one value that the simulator looks an element's choice up by.
function chosen(v) {
  if (v === null || v === undefined) return "";
  if (typeof v !== "object") return String(v);
  return String(v.selected_option?.value ?? v.selected_user ?? v.selected_channel ?? v.selected_conversation ?? v.selected_date ?? v.selected_time ?? v.value ?? v.selected_options?.map((o) => o.value).join(",") ?? "");
}

new Page();

