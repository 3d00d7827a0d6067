// A list of messages that follows what is said without pulling the reader away from what they read.

import { h, swap, place, icon, day, count } from "./dom.js";
import { message, redraw } from "./message.js";

const together = 5 * 60; // seconds within which messages of one author stand under one name
const near = 60; // pixels from the end within which the list sticks to it

export class List {
  // page: see app.js. inThread: the list is a thread's, its first message on top.
  constructor(page, inThread, label) {
    this.page = page;
    this.inThread = inThread;
    this.shown = new Map(); // ts -> {m, key, e}
    this.end = h("div", { class: "list-end" });
    this.inner = h("div", { class: "list-inner" });
    this.box = h("div", { class: "list", role: "log", "aria-live": "off", "aria-label": label, tabindex: "0", on: {
      scroll: () => this.scrolled(), keydown: (ev) => this.keys(ev), focusin: (ev) => this.focused(ev),
    } }, this.inner, this.end);
    this.pill = h("button", { type: "button", class: "pill", hidden: true, on: { click: () => this.bottom(true) } }, icon("down"), h("span", {}, "New messages"));
    this.element = h("div", { class: "list-frame" }, this.box, this.pill);
    this.stick = true;
    this.missed = 0;
    this.wide = new ResizeObserver(() => { if (this.stick) this.bottom(); });
    this.wide.observe(this.box);
    this.wide.observe(this.inner);
  }

  // forget empties the list, for another conversation.
  forget() {
    this.shown.clear();
    swap(this.inner);
    this.stick = true;
    this.missed = 0;
    this.pill.hidden = true;
  }

  // show brings the list to these messages. Only those that changed are drawn again.
  show(messages, { unreadFrom, intro, key }) {
    const nodes = intro ? [intro] : [];
    const fresh = new Map();
    let before = null;
    const newest = [...this.shown.keys()].pop() || "";
    let added = 0;
    for (const m of messages) {
      const newDay = !before || day(before.ts) !== day(m.ts);
      const unread = unreadFrom && m.ts > unreadFrom && (!before || before.ts <= unreadFrom);
      if (newDay) nodes.push(h("div", { class: "day", role: "separator" }, h("span", {}, day(m.ts))));
      if (unread) nodes.push(h("div", { class: "unread-line", role: "separator" }, h("span", {}, "New")));
      const first = this.inThread && m === messages[0];
      const compact = Boolean(before) && !newDay && !unread && before.user === m.user && before.app === m.app && before.to === m.to && !before.subtype && !(this.inThread && before === messages[0])
        && Number.parseFloat(m.ts) - Number.parseFloat(before.ts) < together;
      const state = [compact, first, key(m)].join("|");
      const old = this.shown.get(m.ts);
      let e;
      if (old && old.m === m && old.state === state) e = old.e;
      else {
        e = message(m, this.page, { compact, inThread: this.inThread });
        if (old) redraw(old.e, e);
        else if (m.ts > newest && m.user !== this.page.me) added++;
      }
      fresh.set(m.ts, { m, state, e });
      nodes.push(e);
      if (first && messages.length > 1) nodes.push(h("div", { class: "day thread-count", role: "separator" }, h("span", {}, count(messages.length - 1, "reply", "replies"))));
      before = m;
    }
    const began = this.shown.size === 0;
    this.shown = fresh;
    place(this.inner, nodes);
    if (began || this.stick) this.bottom();
    else if (added) {
      this.missed += added;
      this.pill.hidden = false;
      this.pill.lastChild.textContent = count(this.missed, "new message", "new messages");
    }
  }

  bottom(click) {
    this.box.scrollTop = this.shown.size ? this.box.scrollHeight : 0;
    this.stick = true;
    this.missed = 0;
    this.pill.hidden = true;
    if (click) this.box.focus({ preventScroll: true });
  }

  scrolled() {
    this.stick = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < near;
    if (this.stick) {
      this.missed = 0;
      this.pill.hidden = true;
      this.page.read();
    }
  }

  // keys: arrows walk through the messages, whose tools can be reached by Tab only at the one that has the focus.
  keys(ev) {
    if (!["ArrowUp", "ArrowDown", "Home", "End"].includes(ev.key) || ev.target.closest("input, textarea, select, [role=menu]")) return;
    if (ev.target !== this.box && !ev.target.classList.contains("message")) return;
    const all = [...this.inner.querySelectorAll(".message")];
    if (!all.length) return;
    const at = all.indexOf(ev.target);
    const to = { ArrowUp: at < 0 ? all.length - 1 : Math.max(at - 1, 0), ArrowDown: at < 0 ? all.length - 1 : Math.min(at + 1, all.length - 1), Home: 0, End: all.length - 1 }[ev.key];
    ev.preventDefault();
    all[to].focus();
    all[to].scrollIntoView({ block: "nearest" });
  }

  focused(ev) {
    const now = ev.target.closest(".message");
    for (const e of this.inner.querySelectorAll(".message.current")) {
      if (e === now) continue;
      e.classList.remove("current");
      for (const t of e.querySelectorAll(".tool")) t.tabIndex = -1;
    }
    if (!now) return;
    now.classList.add("current");
    for (const t of now.querySelectorAll(".tool")) t.tabIndex = 0;
  }

  // flash points at one message.
  flash(ts) {
    const e = this.shown.get(ts)?.e;
    e?.scrollIntoView({ block: "center" });
    e?.focus({ preventScroll: true });
  }
}
