// Block Kit becomes elements. `at` says where the blocks stand and what may be done with them:
//   names                 who and what ids are called
//   act(element, block, value)  a person used an element; absent: nothing can be used
//   field(blockId, actionId, read)  a form's element and how its state is read; absent outside of modals and the App Home

import { h, add, icon, soft } from "./dom.js";
import { markdown, mrkdwn, fence, table } from "./markdown.js";
import { mrkdwn as inline, link, picture, mention, href } from "./inline.js";
import { emoji } from "./emoji.js";
import { element } from "./elements.js";

// blocks gives the elements of a list of blocks.
export function blocks(list, at) {
  return (list || []).map((b) => block(b, at));
}

const kinds = {
  section, header, context, divider: () => h("hr", { class: "divider" }), actions, markdown: (b, at) => h("div", { class: "md" }, markdown(b.text || "", at.names)),
  table: tableBlock, data_table: tableBlock, rich_text: richText, image, task_card: taskCard, plan, context_actions: contextActions, input,
};

// block gives the element of one block. One that is not known is shown as what it is, never left out.
export function block(b, at) {
  const make = b && Object.hasOwn(kinds, b.type) ? kinds[b.type] : unknown;
  try {
    const e = make(b, at);
    e.classList.add("block", "block-" + String(b?.type).replace(/[^a-z_]/g, ""));
    if (b?.block_id) e.dataset.block = b.block_id;
    return e;
  } catch (err) {
    return unknown(b, at, String(err));
  }
}

function unknown(b, at, why) {
  return h("details", { class: "unknown" },
    h("summary", {}, `Block “${(b && b.type) || "without type"}” cannot be drawn here`, why ? ": " + why : ""),
    h("pre", {}, JSON.stringify(b, null, 2)));
}

// text gives the nodes of a text object.
export function text(t, at) {
  if (!t) return [];
  if (typeof t === "string") return plain(t);
  if (t.type === "mrkdwn") return mrkdwn(t.text || "", at.names);
  return plain(t.text || "");
}

function plain(s) {
  return [h("p", { dir: "auto", class: "plain" }, soft(signs(s)))];
}

// signs puts emoji in the place of their shortcodes.
function signs(s) {
  return s.replace(/:([a-z0-9_+-]{1,40}):/g, (all, n) => emoji(n) || all);
}

function section(b, at) {
  return h("div", {},
    h("div", { class: "section-text" }, text(b.text, at),
      b.fields?.length ? h("div", { class: "fields" }, b.fields.map((f) => h("div", { class: "field" }, text(f, at)))) : null),
    b.accessory ? h("div", { class: "accessory" }, element(b.accessory, b, at)) : null);
}

function header(b) {
  return h("h3", { dir: "auto" }, b.text?.text || "");
}

function context(b, at) {
  return h("div", {}, (b.elements || []).map((e) => (e.type === "image" ? picture(e.image_url, e.alt_text) : h("span", { class: "context-text", dir: "auto" },
    e.type === "mrkdwn" ? inline(e.text || "", at.names) : e.text || ""))));
}

function actions(b, at) {
  return h("div", { role: "group", "aria-label": "Actions" }, (b.elements || []).map((e) => element(e, b, at)));
}

function contextActions(b, at) {
  return h("div", { role: "group", "aria-label": "About this message" }, (b.elements || []).map((e) => element(e, b, at)));
}

function image(b) {
  return h("div", {}, b.title?.text ? h("div", { class: "image-title" }, b.title.text) : null,
    picture(b.image_url || b.slack_file?.url || "", b.alt_text || "image"));
}

function input(b, at) {
  const label = b.label?.text || "";
  const e = element(b.element || {}, b, { ...at, label });
  return h("div", { class: "input" },
    h("label", {}, h("span", { class: "label" }, label, b.optional ? h("span", { class: "optional" }, " (optional)") : null), e),
    b.hint?.text ? h("div", { class: "hint" }, b.hint.text) : null,
    h("div", { class: "input-error", role: "alert" }));
}

function tableBlock(b, at) {
  const sides = (b.column_settings || []).map((c) => ({ right: "end", center: "center" })[c?.align] || "start");
  const rows = (b.rows || []).map((r) => (Array.isArray(r) ? r : r.cells || []).map((c) => cell(c, at)));
  const e = h("div", {}, b.caption ? h("div", { class: "caption" }, typeof b.caption === "string" ? b.caption : b.caption.text || "") : null);
  add(e, [table(rows, sides)]);
  return e;
}

function cell(c, at) {
  if (!c) return [];
  if (c.type === "rich_text") return (c.elements || []).map((e) => richElement(e, at));
  if (c.type === "raw_number") return [String(c.text ?? c.value ?? c.number ?? "")];
  return [String(c.text ?? "")];
}

function richText(b, at) {
  return h("div", {}, (b.elements || []).map((e) => richElement(e, at)));
}

function richElement(e, at) {
  const inside = (e.elements || []).map((x) => richPiece(x, at));
  switch (e.type) {
    case "rich_text_section": return h("p", { dir: "auto" }, inside);
    case "rich_text_quote": return h("blockquote", { dir: "auto" }, h("p", {}, inside));
    case "rich_text_preformatted": return fence((e.elements || []).map((x) => x.text || x.url || "").join(""), e.language || "");
    case "rich_text_list": {
      const list = h(e.style === "ordered" ? "ol" : "ul", { class: "indent-" + Math.min(Number(e.indent) || 0, 8), start: e.style === "ordered" && e.offset ? e.offset + 1 : null });
      return add(list, (e.elements || []).map((s) => h("li", { dir: "auto" }, (s.elements || []).map((x) => richPiece(x, at)))));
    }
    default: return h("p", { class: "nolink" }, `[${e.type}]`);
  }
}

function richPiece(x, at) {
  const s = x.style || {};
  let n;
  switch (x.type) {
    case "text": n = lines(s.code ? x.text || "" : signs(x.text || "")); break;
    case "link": n = x.text && x.text !== x.url ? link(x.url, x.text) : link(x.url); break;
    case "user": n = mention("user", x.user_id, at.names); break;
    case "channel": n = mention("channel", x.channel_id, at.names); break;
    case "usergroup": n = mention("group", x.usergroup_id, at.names); break;
    case "broadcast": n = mention("loud", x.range, at.names); break;
    case "emoji": n = h("span", { class: "emoji", role: "img", "aria-label": x.name }, emoji(x.name) || `:${x.name}:`); break;
    case "date": n = h("time", { title: x.fallback }, new Date(Number(x.timestamp) * 1000).toLocaleString()); break;
    case "color": n = h("code", {}, x.value); break;
    default: n = h("span", { class: "nolink" }, `[${x.type}]`);
  }
  if (s.code) n = h("code", {}, n);
  if (s.bold) n = h("strong", {}, n);
  if (s.italic) n = h("em", {}, n);
  if (s.strike) n = h("s", {}, n);
  if (s.underline) n = h("u", {}, n);
  return n;
}

function lines(s) {
  const f = document.createDocumentFragment();
  s.split("\n").forEach((p, n) => {
    if (n) f.append(h("br"));
    if (p) f.append(...soft(p));
  });
  return f;
}

const states = {
  pending: ["clock", "waiting"], in_progress: ["", "under way"], complete: ["check", "done"], error: ["cross", "failed"],
};

// taskCard shows one step of the bot's work.
export function taskCard(b, at) {
  const state = Object.hasOwn(states, b.status) ? b.status : "pending";
  const [sign, says] = states[state];
  const more = [part(b.details, at), part(b.output, at)].filter(Boolean);
  const sources = (b.sources || []).map((s) => h("li", {}, link(s.url || "", s.text || s.url || "source")));
  const head = [h("span", { class: "task-state" }, sign ? icon(sign) : h("span", { class: "lamp", "aria-hidden": "true" })),
    h("span", { class: "task-title", dir: "auto" }, b.hide_title ? "" : b.title || "A step"), h("span", { class: "task-says" }, says)];
  const body = more.length || sources.length ? h("details", { open: state === "error" },
    h("summary", {}, head), h("div", { class: "task-more" }, more, sources.length ? h("ul", {}, sources) : null)) : h("div", { class: "task-line" }, head);
  return h("div", { class: "task " + state, dataset: { testid: "task-card", status: state } }, body);
}

function part(p, at) {
  if (!p) return null;
  if (typeof p === "string") return h("div", { class: "md" }, markdown(p, at.names));
  return richText(p, at);
}

function plan(b, at) {
  const tasks = b.tasks || [];
  const done = tasks.filter((t) => t.status === "complete").length;
  return h("section", { class: "plan" },
    h("div", { class: "plan-head" }, h("span", { class: "plan-title" }, typeof b.title === "string" ? b.title : b.title?.text || "Plan"),
      h("span", { class: "plan-count" }, `${done} of ${tasks.length}`)),
    tasks.map((t) => taskCard(t, at)));
}

// attachment shows one of the old attachments.
export function attachment(a, at) {
  const to = href(a.title_link || a.from_url || "");
  const e = h("div", { class: "attachment" },
    a.pretext ? h("div", {}, mrkdwn(a.pretext, at.names)) : null,
    a.author_name ? h("div", { class: "attachment-author" }, a.author_name) : null,
    a.title ? h("div", { class: "attachment-title" }, to ? link(to, a.title) : a.title) : null,
    a.text ? h("div", {}, mrkdwn(a.text, at.names)) : null,
    a.blocks?.length ? blocks(a.blocks, at) : null,
    a.message_blocks?.length ? a.message_blocks.map((m) => blocks(m.message?.blocks, at)) : null,
    a.fields?.length ? h("div", { class: "fields" }, a.fields.map((f) => h("div", { class: "field" }, h("strong", {}, f.title || ""), h("p", {}, f.value || "")))) : null,
    a.image_url || a.thumb_url ? picture(a.image_url || a.thumb_url, a.fallback || "image") : null,
    a.footer ? h("div", { class: "attachment-footer" }, a.footer) : null);
  if (!e.childNodes.length) e.append(a.fallback || "An attachment");
  if (/^#?[0-9a-f]{6}$/i.test(a.color || "")) e.style.borderInlineStartColor = "#" + a.color.replace("#", "");
  return e;
}

// file shows a file as a chip: its name leads to what it holds, and the arrow keeps it. Nothing is fetched for show.
export function file(f) {
  const size = f.size > 0 ? f.size < 1024 ? `${f.size} B` : f.size < 1048576 ? `${Math.round(f.size / 1024)} KiB` : `${(f.size / 1048576).toFixed(1)} MiB` : "";
  const name = f.name || f.title || "file";
  const to = f.id ? "/sim/files/" + encodeURIComponent(f.id) : "";
  return h("span", { class: "chip file", title: f.mimetype || "" }, icon(String(f.mimetype).startsWith("image/") ? "image" : "file"),
    to ? h("a", { href: to, target: "_blank", rel: "noopener noreferrer", dataset: { testid: "file" }, dir: "auto" }, name) : h("span", { dir: "auto" }, name),
    size ? h("span", { class: "chip-note" }, size) : null,
    to ? h("a", { class: "chip-x", href: to + "?save", download: name, "aria-label": "Save " + name, title: "Save", dataset: { testid: "file-save" } }, icon("down")) : null);
}
