// The inspector: everything that goes between the workspace and the apps, as it happens, and ways to make it go wrong.

import { h, swap, icon } from "./dom.js";

const most = 400; // rows that are shown at once; the newest

// kinds groups the log's entries for the filter.
const kinds = {
  events: ["sent", "acked", "missed", "given_up", "ignored"],
  calls: ["called", "refused", "broken"],
  messages: ["said", "posted", "updated", "removed", "whispered", "began", "appended", "stopped", "halted", "expired"],
  people: ["clicked", "view_open", "view_close", "status", "suggested", "joined", "left"],
  sockets: ["opened", "closed"],
  settings: ["changed"],
};
const bad = new Set(["missed", "given_up", "ignored", "refused", "broken", "closed", "expired"]);

// methods are those offered for faults; any other can be typed.
const methods = ["chat.postMessage", "chat.update", "chat.startStream", "chat.appendStream", "chat.stopStream", "chat.delete", "chat.postEphemeral", "conversations.replies", "conversations.info",
  "users.info", "views.open", "views.publish", "assistant.threads.setStatus", "agents.sessions.setStatus", "apps.connections.open", "auth.test"];
const troubles = [
  ["limited", "429, try again later"], ["limited_bare", "429 without Retry-After"], ["500", "500, nothing done"], ["lost_reply", "done, answer lost"], ["lost_as_500", "done, but answers 500"],
  ["hang", "hangs until healed"], ["hang_after", "done, answer hangs"], ["cut", "connection cut, nothing done"], ["html", "an HTML page"], ["refuse", "refused, with an error name"],
];

export class Inspector {
  constructor(page) {
    this.page = page;
    this.box = document.getElementById("inspector");
    this.button = document.getElementById("inspect");
    swap(this.button, icon("pulse"), h("span", {}, "Inspector"), h("kbd", {}, "i"));
    this.button.addEventListener("click", () => this.toggle());
    this.open = false;
    this.off = new Set();
    this.words = "";
    this.held = null; // the log as it was when it was paused
  }

  toggle(to = !this.open) {
    this.open = to;
    this.box.hidden = !to;
    document.body.classList.toggle("inspecting", to);
    this.button.setAttribute("aria-expanded", String(to));
    if (!to) {
      this.button.focus({ preventScroll: true });
      return;
    }
    if (!this.built) this.build();
    this.list();
    this.drawFaults();
    this.box.querySelector(".inspect-search").focus({ preventScroll: true });
  }

  build() {
    this.built = true;
    const filter = (name) => h("button", { type: "button", class: "filter", "aria-pressed": "true", on: { click: (ev) => {
      const on = this.off.delete(name) || !this.off.add(name);
      ev.currentTarget.setAttribute("aria-pressed", String(on));
      this.list();
    } } }, name);
    this.pause = h("button", { type: "button", class: "filter", "aria-pressed": "false", dataset: { testid: "inspector-pause" }, on: { click: () => this.hold() } }, icon("pause"), h("span", {}, "Pause"));
    this.search = h("input", { type: "search", class: "inspect-search", placeholder: "Find in the log", "aria-label": "Find in the log", on: { input: () => { this.words = this.search.value.toLowerCase(); this.list(); } } });
    this.rows = h("div", { class: "rows", role: "listbox", "aria-label": "Log", tabindex: "0", on: { keydown: (ev) => this.keys(ev) } });
    this.detail = h("div", { class: "detail", tabindex: "0", role: "region", "aria-label": "Entry" }, h("p", { class: "hint" }, "Choose an entry to see all of it."));
    this.faults = h("div", { class: "faults", role: "region", "aria-label": "Faults" });
    const logTab = h("button", { type: "button", class: "tab", role: "tab", "aria-selected": "true", on: { click: () => this.side("log") } }, "Log");
    const faultTab = h("button", { type: "button", class: "tab", role: "tab", "aria-selected": "false", dataset: { testid: "faults-tab" }, on: { click: () => this.side("faults") } }, "Faults");
    this.tabs = { log: logTab, faults: faultTab };
    swap(this.box, h("header", { class: "inspect-head" }, h("h2", { class: "unseen" }, "Inspector"), h("div", { class: "tabs", role: "tablist", "aria-label": "Inspector" }, logTab, faultTab),
      h("div", { class: "filters" }, Object.keys(kinds).map(filter), this.pause, this.search),
      h("button", { type: "button", class: "icon-button close", "aria-label": "Close inspector", on: { click: () => this.toggle(false) } }, icon("close"))),
    h("div", { class: "inspect-body" }, this.rows, this.detail), this.faults);
    this.side("log");
    this.buildFaults();
  }

  side(name) {
    this.box.dataset.side = name;
    for (const [k, t] of Object.entries(this.tabs)) t.setAttribute("aria-selected", String(k === name));
  }

  hold() {
    this.held = this.held ? null : [...this.page.store.log];
    this.pause.setAttribute("aria-pressed", String(Boolean(this.held)));
    swap(this.pause, icon(this.held ? "play" : "pause"), h("span", {}, this.held ? "Go on" : "Pause"));
    this.list();
  }

  fits(e) {
    for (const [name, list] of Object.entries(kinds)) if (list.includes(e.what) && this.off.has(name)) return false;
    return !this.words || this.line(e).toLowerCase().includes(this.words);
  }

  line(e) {
    const { store } = this.page;
    const c = store.channels.get(e.channel);
    return [e.what, e.method, c ? (c.name ? "#" + c.name : store.called(c, e.person)) : e.channel, store.people.get(e.person)?.name || e.person, e.error, this.summary(e)].filter(Boolean).join(" ");
  }

  summary(e) {
    if (e.text) return e.text.replace(/\s+/g, " ").slice(0, 160);
    if (e.session) return `${e.session.state}${e.session.words ? ": " + e.session.words : ""}`;
    if (e.view) return e.view.kind + " " + (e.view.body?.title?.text || e.view.callback || "");
    return "";
  }

  add(e) {
    if (!this.open || this.held || !this.built) return;
    if (!this.fits(e)) return;
    const end = this.rows.scrollHeight - this.rows.scrollTop - this.rows.clientHeight < 40;
    this.rows.append(this.row(e));
    while (this.rows.children.length > most) this.rows.firstChild.remove();
    if (end) this.rows.scrollTop = this.rows.scrollHeight;
  }

  list() {
    if (!this.built) return;
    const log = (this.held || this.page.store.log).filter((e) => this.fits(e)).slice(-most);
    swap(this.rows, log.map((e) => this.row(e)));
    this.rows.scrollTop = this.rows.scrollHeight;
  }

  row(e) {
    const { store } = this.page;
    const c = store.channels.get(e.channel);
    const group = Object.keys(kinds).find((k) => kinds[k].includes(e.what)) || "settings";
    const r = h("div", { class: "row " + group + (bad.has(e.what) ? " bad" : ""), role: "option", "aria-selected": String(this.chosen === e.n), dataset: { n: e.n, what: e.what }, on: { click: () => this.choose(e) } },
      h("span", { class: "row-n" }, e.n), h("time", {}, new Date(e.at).toLocaleTimeString([], { hour12: false }) + "." + String(new Date(e.at).getMilliseconds()).padStart(3, "0")),
      h("span", { class: "row-what" }, e.what), h("span", { class: "row-method" }, e.method || ""),
      h("span", { class: "row-where" }, c ? (c.name ? "#" + c.name : store.called(c, e.person)) : ""),
      h("bdi", { class: "row-words" }, e.error ? h("b", {}, e.error + " ") : null, e.attempt ? `try ${e.attempt + 1} ` : "", this.summary(e)));
    return r;
  }

  choose(e) {
    this.chosen = e.n;
    for (const r of this.rows.children) r.setAttribute("aria-selected", String(Number(r.dataset.n) === e.n));
    swap(this.detail, h("pre", { class: "json" }, colours(e)));
    this.detail.scrollTop = 0;
    this.box.classList.add("chosen");
  }

  keys(ev) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[ev.key];
    if (!step) return;
    ev.preventDefault();
    const all = [...this.rows.children];
    const at = all.findIndex((r) => Number(r.dataset.n) === this.chosen);
    const r = all[Math.max(0, Math.min(all.length - 1, at < 0 ? all.length - 1 : at + step))];
    const e = r && (this.held || this.page.store.log).find((x) => x.n === Number(r.dataset.n));
    if (!e) return;
    this.choose(e);
    r.scrollIntoView({ block: "nearest" });
  }

  buildFaults() {
    const { page } = this;
    const act = (a) => page.tried(() => page.store.act(...(typeof a === "function" ? a() : a)));
    const button = (words, a, kind) => h("button", { type: "button", class: "action " + (kind || ""), on: { click: () => act(a) } }, words);
    const labelled = (words, e) => h("label", { class: "fault-field" }, h("span", {}, words), e);
    const reason = h("select", { class: "select" }, ["warning", "refresh_requested", "link_disabled", "too_many_websockets"].map((r) => h("option", { value: r }, r)));
    const method = h("input", { class: "field-input", list: "methods", value: "chat.postMessage", spellcheck: "false" });
    const trouble = h("select", { class: "select" }, troubles.map(([v, words]) => h("option", { value: v }, words)));
    const error = h("input", { class: "field-input", value: "invalid_blocks", spellcheck: "false" });
    const named = labelled("Error", error);
    const times = h("input", { class: "field-input short", type: "number", min: "1", max: "1000", value: "1" });
    const again = h("input", { class: "field-input short", type: "number", min: "1", max: "100", value: "1" });
    const fresh = h("input", { type: "checkbox", role: "switch" });
    named.hidden = true;
    trouble.addEventListener("change", () => { named.hidden = trouble.value !== "refuse"; });
    this.limits = h("input", { type: "checkbox", role: "switch", on: { change: () => act(["limits", { on: this.limits.checked }]) } });
    this.active = h("div", { class: "active-faults" });
    swap(this.faults,
      h("fieldset", {}, h("legend", {}, "Sockets"), h("div", { class: "fault-row" }, button("Cut all", () => ["cut", {}], "danger"), labelled("Disconnect with", reason), button("Disconnect", () => ["disconnect", { reason: reason.value }]))),
      h("fieldset", {}, h("legend", {}, "The next calls"), h("datalist", { id: "methods" }, methods.map((m) => h("option", { value: m }))),
        h("div", { class: "fault-row" }, labelled("Method", method), labelled("Fails as", trouble), named, labelled("Times", times),
          button("Arm", () => ["fault", { method: method.value.trim(), do: trouble.value, error: error.value.trim(), times: Number(times.value) || 1 }], "danger"), button("Heal everything", () => ["heal", {}])), this.active),
      h("fieldset", {}, h("legend", {}, "Delivery"), h("div", { class: "fault-row" }, labelled("Times", again), button("Send the last event again", () => this.last(Number(again.value) || 1, fresh.checked)),
        h("label", { class: "switch" }, fresh, h("span", {}, "as new events")), h("label", { class: "switch" }, this.limits, h("span", {}, "Slack’s rate limits")))));
  }

  // last asks to send the events of what a person said last once more.
  last(times, fresh) {
    const said = [...this.page.store.messages.values()].flatMap((l) => [...l.values()]).filter((m) => !m.app && !m.bot && !m.to);
    const m = said.reduce((a, b) => (a && a.ts > b.ts ? a : b), null);
    if (!m) throw new Error("nobody has said anything yet");
    return ["resend", { channel: m.channel, ts: m.ts, repeat: { times, new_event: fresh } }];
  }

  drawFaults() {
    if (!this.built || !this.active) return;
    const { store } = this.page;
    this.limits.checked = store.limits;
    swap(this.active, store.faults.map((f) => h("span", { class: "chip" }, `${f.method || "every call"}: ${troubles.find(([v]) => v === f.do)?.[1] || f.do}${f.times > 1 ? ` × ${f.times}` : ""}`)));
  }
}

// colours gives JSON with names, texts and numbers in different colours.
function colours(value) {
  const s = JSON.stringify(value, null, 2);
  const out = [];
  let from = 0;
  for (const m of s.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\b/g)) {
    out.push(s.slice(from, m.index));
    const kind = m[2] ? "j-key" : m[1] ? "j-text" : "j-other";
    out.push(h("span", { class: kind }, m[1] || m[3]), m[2] || "");
    from = m.index + m[0].length;
  }
  out.push(s.slice(from));
  return out;
}
