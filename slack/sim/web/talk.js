// The conversation and the thread beside it.

import { h, swap, icon, count } from "./dom.js";
import { List } from "./list.js";
import { Composer, typed } from "./compose.js";
import { avatar } from "./message.js";
import { Home } from "./home.js";

const stretch = 300; // messages that are drawn at first, and more at each asking
const turn = 3000; // milliseconds that each of an app's loading messages is shown

export class Talk {
  constructor(page) {
    this.page = page;
    this.drafts = new Map();
    this.main = document.getElementById("talk");
    this.aside = document.getElementById("thread");
    this.list = new List(page, false, "Messages");
    this.threadList = new List(page, true, "Thread");
    this.home = new Home(page);
    this.earlier = h("div", { class: "earlier" }, h("button", { type: "button", class: "action", on: { click: () => this.more() } }, "Show earlier messages"));
    this.composer = new Composer(page, {
      id: "composer", testid: "composer", sendid: "send", label: "Message", last: () => this.last(""), members: () => this.room()?.members,
      send: (text, files) => this.send(this.page.channel, "", text, files),
    });
    this.threadComposer = new Composer(page, {
      id: "thread-composer", testid: "thread-composer", sendid: "thread-send", label: "Reply", last: () => this.last(this.page.thread), members: () => this.room()?.members,
      send: (text, files) => this.send(this.page.channel, this.page.thread, text, files),
    });
    this.head = h("header", { class: "pane-head" });
    this.foot = h("footer", { class: "pane-foot" });
    this.status = h("div", { class: "status-place" });
    this.prompts = h("div", { class: "prompts-place" });
    this.editBar = h("div", { class: "edit-place" });
    this.tail = h("div", { class: "compose-place" });
    swap(this.foot, this.status, this.prompts, this.editBar, this.tail);
    swap(this.main, this.head, this.list.element, this.home.element, this.foot);
    this.threadHead = h("header", { class: "pane-head" });
    this.threadStatus = h("div", { class: "status-place" });
    this.threadEditBar = h("div", { class: "edit-place" });
    this.threadTail = h("div", { class: "compose-place" });
    swap(this.aside, this.threadHead, this.threadList.element, h("footer", { class: "pane-foot" }, this.threadStatus, this.threadEditBar, this.threadTail));
    setInterval(() => this.turnWords(), turn);
  }

  room() {
    return this.page.store.channels.get(this.page.channel);
  }

  focus() {
    (this.composer.element.isConnected ? this.composer : this.list.box).focus();
  }

  focusThread() {
    if (this.threadComposer.element.isConnected) this.threadComposer.focus();
  }

  async send(channel, thread, text, files) {
    const e = this.editing;
    if (e && e.channel === channel && (e.inThread ? thread : !thread)) {
      this.cancelEdit();
      await this.page.saveEdit(e.m, text);
      return;
    }
    (thread ? this.threadList : this.list).stick = true;
    await this.page.post(channel, thread, text, files);
  }

  // last gives the newest message of the person here, which the arrow key takes up to edit.
  last(thread) {
    const mine = this.page.store.in(this.page.channel, this.page.me, thread).filter((m) => m.user === this.page.me && !m.subtype && (!thread || m.ts !== thread || m.thread));
    return mine[mine.length - 1];
  }

  edit(m) {
    const inThread = Boolean(this.page.thread) && (m.thread === this.page.thread || m.ts === this.page.thread);
    const box = inThread ? this.threadComposer : this.composer;
    this.editing = { m, inThread, channel: m.channel, before: box.text };
    box.text = typed(m.text, this.page.store);
    this.drawEdit();
    box.focus();
  }

  // cancelEdit puts back what stood in the box before; it says whether something was being edited.
  cancelEdit() {
    const e = this.editing;
    if (!e) return false;
    this.editing = null;
    (e.inThread ? this.threadComposer : this.composer).text = e.before;
    this.drawEdit();
    return true;
  }

  drawEdit() {
    const bar = () => h("div", { class: "edit-bar" }, h("span", {}, "Editing your message"), h("button", { type: "button", class: "text-button", on: { click: () => this.cancelEdit() } }, "Cancel (Esc)"));
    swap(this.editBar, this.editing && !this.editing.inThread ? bar() : null);
    swap(this.threadEditBar, this.editing?.inThread ? bar() : null);
  }

  draw() {
    const { store, me, channel, thread, tab } = this.page;
    const c = this.room();
    const where = [me, channel].join();
    if (this.where !== where) {
      this.keep(this.composer, this.where, where);
      this.cancelEdit();
      this.list.forget();
      this.where = where;
      this.reach = stretch;
      this.of = channel;
      this.unreadFrom = c ? this.unread(c) : "";
      this.headKey = "";
    }
    this.drawHead(c);
    const home = tab === "home" && c?.app;
    this.main.dataset.tab = home ? "home" : "messages";
    this.home.draw(home ? c : null);
    this.list.element.hidden = this.foot.hidden = Boolean(home);
    if (!home) {
      const all = c ? store.in(channel, me) : [];
      const list = all.slice(-this.reach);
      this.list.show(list, { unreadFrom: this.unreadFrom, intro: list.length < all.length ? this.earlier : this.intro(c), key: (m) => this.key(m) });
      this.drawStatus(this.status, c?.app && !thread ? this.dmSession(c) : store.session(channel, ""));
      this.drawPrompts(c);
      this.drawTail(this.tail, this.composer, c, c ? (c.name ? `Message #${c.name}` : `Message ${store.called(c, me)}`) : "");
    }
    this.drawThread(c);
  }

  // more draws older messages too; what is read stays where it is.
  more() {
    const { box } = this.list;
    const under = box.scrollHeight - box.scrollTop;
    this.reach += stretch;
    this.list.stick = false;
    this.page.draw();
    requestAnimationFrame(() => requestAnimationFrame(() => { box.scrollTop = box.scrollHeight - under; }));
  }

  unread(c) {
    const { count, from } = this.page.news(c.id);
    return count ? from : "";
  }

  // keep stores the draft of the conversation that is left and takes up the one of that which is entered.
  keep(box, from, to) {
    if (from) this.drafts.set(from + box.o.id, this.editing ? this.editing.before : box.text);
    const next = this.drafts.get(to + box.o.id) || "";
    if (box.text !== next) box.text = next;
  }

  // key is what else than the message itself decides how it looks.
  key(m) {
    const { page } = this;
    const replies = page.store.replies(m.channel, m.ts);
    const c = this.room();
    return [page.me, replies.length, replies[replies.length - 1]?.ts, page.working(m.channel, m.ts), c?.members.includes(page.me), page.store.people.get(m.user)?.name].join();
  }

  drawHead(c) {
    const { store, me, tab } = this.page;
    const key = JSON.stringify([c, me, c && store.called(c, me), store.people.size]);
    if (key !== this.headKey) this.makeHead(c);
    this.headKey = key;
    for (const t of this.head.querySelectorAll(".tab")) {
      const on = t.dataset.testid === "tab-" + (tab || "messages");
      t.setAttribute("aria-selected", String(on));
      t.tabIndex = on ? 0 : -1;
    }
  }

  // makeHead draws the head; which tab is chosen, drawHead marks.
  makeHead(c) {
    const { store, me } = this.page;
    const held = this.head.contains(document.activeElement) ? document.activeElement.dataset.testid : null;
    const back = h("button", { type: "button", class: "icon-button back", "aria-label": "All conversations", on: { click: () => this.page.go({ pane: "list", thread: "" }) } }, icon("back"));
    if (!c) {
      swap(this.head, back, h("h2", {}, "Nothing to see yet"));
      return;
    }
    const app = c.app && store.apps.get(c.app);
    const people = c.members.map((id) => store.people.get(id)).filter(Boolean);
    const sign = app ? avatar(null, app) : c.kind === "im" ? avatar(people.find((p) => p.id !== me)) : icon({ private: "lock", shared: "shared" }[c.kind] || "hash");
    swap(this.head, back, h("span", { class: "pane-sign" }, sign), h("h2", {}, h("bdi", {}, store.called(c, me))),
      c.kind === "shared" ? h("span", { class: "badge external", title: "People of other organisations read along" }, "shared") : null,
      c.archived ? h("span", { class: "badge" }, "archived") : null,
      app ? this.tabs(app) : c.kind === "im" ? null : h("span", { class: "faces", title: people.map((p) => p.name).join(", ") },
        people.slice(0, 4).map((p) => avatar(p)), h("span", { class: "faces-count" }, count(people.length, "member", "members"))));
    if (held) this.head.querySelector(`[data-testid="${held}"]`)?.focus();
  }

  tabs(app) {
    const one = (id, words) => h("button", {
      type: "button", role: "tab", class: "tab", "aria-selected": "false", dataset: { testid: "tab-" + id },
      on: { click: () => this.page.openApp(app, id) },
    }, words);
    return h("div", { class: "tabs", role: "tablist", "aria-label": app.name, on: { keydown: (ev) => {
      if (ev.key !== "ArrowLeft" && ev.key !== "ArrowRight") return;
      const other = [...ev.currentTarget.children].find((x) => x !== document.activeElement);
      other?.focus();
      other?.click();
    } } }, one("messages", "Messages"), app.no_home ? null : one("home", "Home"));
  }

  // intro stands above the first message.
  intro(c) {
    const { store, me } = this.page;
    if (!c) return h("div", { class: "intro" }, h("h3", {}, "There is nobody here yet"), h("p", {}, "As soon as the workspace has people and channels, they show up here."));
    const quiet = ![...store.messages.values()].some((l) => [...l.values()].some((m) => !m.subtype?.includes("join")));
    const key = [quiet, c.id, me, store.suggestions.length, store.people.size].join();
    if (this.introKey === key && this.introMade) return this.introMade;
    this.introKey = key;
    this.introMade = quiet ? this.greeting() : this.start(c);
    return this.introMade;
  }

  greeting() {
    const { store } = this.page;
    const app = [...store.apps.values()][0];
    const tries = store.suggestions.slice(0, 3);
    return h("div", { class: "intro greeting" },
      h("div", { class: "cords", "aria-hidden": "true" }, h("i"), h("i"), h("i"), h("i"), h("i"), h("i")),
      h("h3", {}, "A workspace of your own"),
      h("p", {}, `Everything here runs on your machine: the people, the channels and ${app ? `the bot, which is called ${app.name}` : "the bot"}. Write as anybody, and watch what it does. Nothing reaches the real Slack.`),
      tries.length ? [h("p", { class: "try" }, "Three messages to begin with:".replace("Three messages", tries.length === 1 ? "A message" : tries.length === 2 ? "Two messages" : "Three messages")),
        h("ul", { class: "tries" }, tries.map((s) => h("li", {}, h("button", { type: "button", class: "try-button", dataset: { testid: "suggestion" }, on: { click: () => this.try(s) } },
          h("span", { class: "try-where" }, icon("hash"), store.channels.get(s.channel)?.name || store.called(store.channels.get(s.channel) || { members: [] }, this.page.me)),
          h("span", { class: "try-text" }, this.page.plain(s.text)), s.why ? h("span", { class: "try-why" }, s.why) : null))))] : null,
      h("p", { class: "also" }, "Press ", h("kbd", {}, "i"), " to see every event and call, and to make things go wrong on purpose."));
  }

  // try writes a suggested message, as somebody who is in its channel.
  async try(s) {
    const { page } = this;
    const c = page.store.channels.get(s.channel);
    if (!c) return;
    const me = c.members.includes(page.me) ? page.me : page.crowd().find((p) => c.members.includes(p.id))?.id;
    if (!me) return;
    page.go({ me, channel: c.id, thread: "", tab: "", pane: "talk" });
    await page.tried(() => page.post(c.id, "", s.text, []));
    this.focus();
  }

  start(c) {
    const { store, me } = this.page;
    const name = store.called(c, me);
    const app = c.app && store.apps.get(c.app);
    const words = app ? `Write to ${app.name} here without mentioning it. Nobody else sees it.`
      : c.kind === "shared" ? "People of other organisations read along here."
        : c.kind === "private" ? "Only its members can see this channel." : c.kind === "im" ? "Only the two of you can see this." : "Everybody in the workspace can see this channel.";
    return h("div", { class: "intro" }, h("h3", {}, c.name ? "#" + name : name), h("p", {}, words));
  }

  dmSession(c) {
    const { store } = this.page;
    return [...store.sessions.values()].filter((s) => s.channel === c.id && (s.words || s.state === "processing")).sort((a, b) => (a.thread < b.thread ? 1 : -1))[0];
  }

  // drawStatus shows what an app is doing, and the button that stops it.
  drawStatus(place, s) {
    const app = s && this.page.store.apps.get(s.app);
    const on = Boolean(s && (s.words || s.state === "processing"));
    const key = on ? JSON.stringify([s.words, s.state, s.loading, s.can_stop, s.thread]) : "";
    if (place.dataset.key === key) return;
    place.dataset.key = key;
    if (!on) {
      swap(place);
      return;
    }
    const words = h("span", { class: "status-words", dir: "auto" });
    place.words = { e: words, list: s.words && s.loading?.length ? s.loading : [s.words || "is working…"], app: app?.name || "The app", n: 0 };
    this.turnWords();
    swap(place, h("div", { class: "status", role: "status", dataset: { testid: "status" } }, h("span", { class: "lamp on pulse", "aria-hidden": "true" }), words,
      s.can_stop ? h("button", { type: "button", class: "stop", dataset: { testid: "stop" }, on: { click: () => this.page.stop(s) } }, icon("stop"), "Stop") : null));
  }

  // turnWords shows the next of an app's loading messages.
  turnWords() {
    for (const place of [this.status, this.threadStatus]) {
      const w = place.words;
      if (!w || !place.dataset.key) continue;
      const one = w.list[w.n++ % w.list.length];
      w.e.textContent = w.list.length > 1 ? one : `${w.app} ${one}`;
    }
  }

  // drawPrompts offers what the app suggests in its DM.
  drawPrompts(c) {
    const p = c?.app ? this.page.store.prompts.get(c.id + "/") : null;
    const key = p ? JSON.stringify(p) : "";
    if (this.promptsKey === key) return;
    this.promptsKey = key;
    swap(this.prompts, p?.prompts?.length ? h("div", { class: "prompts" }, p.title ? h("span", { class: "prompts-title" }, p.title) : null,
      p.prompts.map((x) => h("button", { type: "button", class: "prompt", title: x.message, dataset: { testid: "prompt" }, on: { click: () => this.page.tried(() => this.page.post(c.id, "", x.message, [])) } }, x.title))) : null);
  }

  // drawTail shows the box to write in, or why there is none.
  drawTail(place, box, c, label) {
    const { store, me } = this.page;
    const inside = c?.members.includes(me);
    const app = c?.app && store.apps.get(c.app);
    const key = !c ? "" : c.archived ? "archived" : !inside ? "outside" + c.id : app?.no_messages ? "closed" : "box";
    if (label && key === "box") box.label(label);
    if (place.dataset.key === key) return;
    place.dataset.key = key;
    const note = (words, ...more) => h("div", { class: "closed" }, h("span", {}, words), more);
    if (key === "box") swap(place, box.element);
    else if (key === "archived") swap(place, note("This channel is archived."));
    else if (key === "closed") swap(place, note("This app takes no messages."));
    else if (c) swap(place, note(`You are not in #${c.name}.`, h("button", { type: "button", class: "action primary", on: { click: () => this.page.join(c) } }, "Join")));
    else swap(place);
  }

  drawThread(c) {
    const { store, me, channel, thread } = this.page;
    this.aside.hidden = !thread;
    if (!thread) {
      if (this.threadWhere) this.keep(this.threadComposer, this.threadWhere, "");
      this.threadWhere = "";
      this.threadList.forget();
      return;
    }
    const where = [me, channel, thread].join();
    if (this.threadWhere !== where) {
      this.keep(this.threadComposer, this.threadWhere, where);
      this.threadList.forget();
      this.threadWhere = where;
      const s = store.session(channel, thread);
      swap(this.threadHead, h("button", { type: "button", class: "icon-button back", "aria-label": "Back to the conversation", on: { click: () => this.page.closeThread() } }, icon("back")),
        h("h2", {}, s?.title || "Thread"), h("bdi", { class: "pane-where" }, c?.name ? "#" + c.name : store.called(c, me)),
        h("button", { type: "button", class: "icon-button close", "aria-label": "Close thread", title: "Close thread (Esc)", on: { click: () => this.page.closeThread() } }, icon("close")));
    }
    const title = store.session(channel, thread)?.title;
    if (title && this.threadHead.children[1].textContent !== title) this.threadHead.children[1].textContent = title;
    this.threadList.show(store.in(channel, me, thread), { key: (m) => this.key(m) });
    this.drawStatus(this.threadStatus, store.session(channel, thread));
    this.drawTail(this.threadTail, this.threadComposer, c, "Reply…");
  }
}

