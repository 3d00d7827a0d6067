// One message as people see it.

import { h, icon, clock, shortClock, full, count } from "./dom.js";
import { mrkdwn } from "./markdown.js";
import { blocks, attachment, file } from "./blocks.js";
import { emoji } from "./emoji.js";

const hues = 12;

// hue gives everybody a colour that stays theirs.
export function hue(id) {
  let n = 0;
  for (const c of String(id)) n = (n * 31 + c.codePointAt(0)) % 997;
  return "hue-" + (n % hues);
}

// avatar draws who somebody is: letters for people, the jack for an app.
export function avatar(p, app) {
  if (app || p?.kind === "bot" || p?.app) return h("span", { class: "avatar bot", "aria-hidden": "true" }, icon("jack"));
  const letters = [...String(p?.name || "?").trim()].slice(0, 1).join("").toUpperCase();
  return h("span", { class: "avatar " + hue(p?.id || ""), "aria-hidden": "true" }, letters);
}

const kinds = { guest: "guest", single_guest: "guest", external: "external", stranger: "external", bot: "app" };

// badge says how somebody belongs to the workspace, where that is not as usual.
export function badge(p) {
  const k = p?.app ? "app" : kinds[p?.kind];
  return k ? h("span", { class: "badge " + k }, k) : null;
}

// author is who a message is by.
export function author(m, store) {
  const app = m.app ? store.apps.get(m.app) : null;
  const p = store.people.get(m.user) || { id: m.user || m.app, name: app?.name || m.user || "somebody" };
  return { p: app ? { ...p, name: app.name || p.name, app: m.app } : p, app };
}

// body gives the words of a message: its blocks, or else its text; then attachments and files.
export function body(m, at) {
  const out = h("div", { class: "body" });
  if (m.plan) out.append(h("div", { class: "plan-title" }, m.plan));
  if (m.blocks?.length) out.append(...blocks(m.blocks, at));
  else if (m.text) out.append(h("div", { class: "md" }, mrkdwn(m.text, at.names)));
  for (const a of m.attachments || []) out.append(attachment(a, at));
  if (m.files?.length) out.append(h("div", { class: "files" }, m.files.map((f) => file({ ...f, mimetype: f.type }))));
  if (m.streaming) caret(out);
  return out;
}

// caret marks where a streamed text goes on: behind its last word.
function caret(out) {
  const spots = out.querySelectorAll("p, li, td, th, code, h3, h4, h5, h6, .task");
  const last = [...spots].filter((e) => !e.closest(".task") && !e.closest(".fence-head")).pop() || out;
  last.append(h("span", { class: "caret", role: "img", "aria-label": "still writing" }));
}

// message gives the element of a message. page: what the message needs of the page (see app.js).
export function message(m, page, { compact, inThread }) {
  const { store } = page;
  const me = page.me;
  if (/^(channel|group)_(join|leave|topic|purpose|name|archive)$/.test(m.subtype || "")) return notice(m, page);
  const { p, app } = author(m, store);
  const own = m.user === me && !app;
  const at = page.at(m);
  const root = m.thread ? m.thread : m.ts;
  const e = h("article", {
    class: ["message", compact ? "compact" : "", own ? "own" : "", m.to ? "whisper" : "", m.streaming ? "streaming" : "", page.mentions(m) ? "for-me" : ""].filter(Boolean).join(" "),
    dataset: { testid: "message", ts: m.ts, user: m.user || "" }, "aria-label": `${p.name}, ${clock(m.ts)}`, tabindex: "-1",
  },
  h("div", { class: "gutter" }, compact ? h("time", { class: "small-time", title: full(m.ts) }, shortClock(m.ts)) : avatar(p, app)),
  h("div", { class: "content" },
    compact ? null : h("div", { class: "head" }, h("bdi", { class: "name" }, p.name), badge(p), h("time", { title: full(m.ts) }, clock(m.ts)),
      m.edited && !app ? h("span", { class: "edited", title: full(m.edited.ts) }, "edited") : null),
    compact && m.edited && !app ? h("span", { class: "edited inline" }, "edited") : null,
    m.to ? h("div", { class: "only-you" }, icon("eye"), "Only visible to you") : null,
    m.broadcast && !inThread ? h("div", { class: "only-you" }, icon("reply"), "Replied in a thread") : null,
    body(m, at),
    reactions(m, page),
    inThread ? null : replies(m, page)),
  m.to ? h("div", { class: "tools" }, tool("close", "Dismiss", () => page.dismiss(m))) : tools(m, page, own, root, inThread));
  return e;
}

function notice(m, page) {
  const { p } = author(m, page.store);
  const said = { join: "joined", leave: "left" }[(m.subtype || "").split("_")[1]];
  const words = said ? `${p.name} ${said} the channel` : page.plain(m.text);
  return h("div", { class: "notice", dataset: { testid: "message", ts: m.ts }, title: full(m.ts) }, words);
}

function reactions(m, page) {
  if (!m.reactions?.length) return null;
  return h("div", { class: "reactions" }, m.reactions.map((r) => h("button", {
    type: "button", class: "reaction", "aria-pressed": String((r.users || []).includes(page.me)), title: (r.users || []).map((id) => page.names.user(id)).join(", ") + " with :" + r.name + ":",
    on: { click: () => page.react(m, r.name) },
  }, emoji(r.name) || ":" + r.name + ":", " ", (r.users || []).length)));
}

// replies leads to the thread, and shows when the bot is at work in it.
function replies(m, page) {
  const list = page.store.replies(m.channel, m.ts);
  const busy = page.working(m.channel, m.ts);
  if (!list.length && !busy) return null;
  const who = [...new Map(list.map((r) => [r.user || r.app, r])).values()].slice(0, 4);
  const last = list[list.length - 1];
  return h("button", { type: "button", class: "replies" + (busy ? " busy" : ""), dataset: { testid: "replies", ts: m.ts }, on: { click: () => page.open(m.channel, m.ts, true) } },
    h("span", { class: "faces" }, who.map((r) => { const a = author(r, page.store); return avatar(a.p, a.app); })),
    list.length ? h("span", { class: "replies-count" }, count(list.length, "reply", "replies")) : null,
    busy ? h("span", { class: "replies-busy" }, h("span", { class: "lamp on", "aria-hidden": "true" }), busy) : last ? h("span", { class: "replies-last" }, "last at " + clock(last.ts)) : null);
}

function tool(sign, label, f) {
  return h("button", { type: "button", class: "tool", "aria-label": label, title: label, tabindex: "-1", on: { click: f } }, icon(sign));
}

function tools(m, page, own, root, inThread) {
  return h("div", { class: "tools", role: "toolbar", "aria-label": "What to do with this message" },
    inThread ? null : tool("reply", "Reply in thread", () => page.open(m.channel, root, true)),
    tool("more", "More", (ev) => page.menu(ev.currentTarget, [
      inThread ? null : ["Reply in thread", () => page.open(m.channel, root, true)],
      ["Copy text", () => page.copy(m)],
      ...page.shortcuts(m),
      own && !m.files?.length ? ["Edit message", () => page.edit(m)] : null,
      own ? ["Delete message", () => page.remove(m), "danger"] : null,
    ].filter(Boolean))));
}

// redraw puts a fresh element in a message's place. What has the focus within it keeps it, where the fresh element has the
// same control, and what was unfolded stays so.
export function redraw(element, fresh) {
  const held = element.contains(document.activeElement) ? document.activeElement : null;
  const path = held && held !== element ? [...element.querySelectorAll("button, a, input, select, textarea")].indexOf(held) : -1;
  const shown = [...element.querySelectorAll("details")].map((d) => d.open);
  fresh.querySelectorAll("details").forEach((d, n) => { if (shown[n]) d.open = true; });
  if (element.tabIndex === 0) fresh.tabIndex = 0;
  element.replaceWith(fresh);
  if (held === element) fresh.focus({ preventScroll: true });
  else if (path >= 0) (fresh.querySelectorAll("button, a, input, select, textarea")[path] || fresh).focus({ preventScroll: true });
  return fresh;
}
