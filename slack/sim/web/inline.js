// Inline text: Slack's mrkdwn and Markdown become elements. What stands in a text is a stranger's: it is never parsed as
// HTML, a link leads only to http, https or mailto, and nothing is fetched for it. Both take time that grows with the text's
// length only, whatever stands in it.

import { h, icon, soft } from "./dom.js";
import { emoji } from "./emoji.js";

const deepest = 12; // emphasis within emphasis beyond this stays as typed
const hole = "\uE000"; // stands for a piece that is already an element

// href gives an address that may be followed, or null.
export function href(address) {
  const s = String(address).trim();
  if (/[\u0000-\u001f\u007f]/.test(s)) return null;
  try {
    const u = new URL(s);
    return ["http:", "https:", "mailto:"].includes(u.protocol) ? u.href : null;
  } catch {
    return null;
  }
}

// link makes a link, or where the address may not be followed a piece of text that shows it.
export function link(address, ...label) {
  const to = href(address);
  const shown = label.length ? label : soft(String(address));
  if (!to) return h("span", { class: "nolink", title: "This address cannot be followed: " + address }, shown, label.length ? ` (${address})` : null);
  return h("a", { href: to, target: "_blank", rel: "noopener noreferrer nofollow", title: to }, shown);
}

// picture shows an image as a link: the page never fetches one.
export function picture(address, name) {
  const to = href(address || "");
  const inside = [icon("image"), h("span", {}, name || "image")];
  if (!to) return h("span", { class: "chip", title: "An image" }, inside);
  return h("a", { class: "chip", href: to, target: "_blank", rel: "noopener noreferrer nofollow", title: "An image, not loaded: " + to }, inside);
}

// mention names somebody. Names come from the workspace, so that a text cannot call itself something else.
export function mention(kind, id, names) {
  if (kind === "user") {
    const me = id === names.me;
    return h("span", { class: "mention" + (me ? " me" : ""), title: id }, "@" + names.user(id));
  }
  if (kind === "channel") return h("span", { class: "mention", title: id }, "#" + names.channel(id));
  if (kind === "group") return h("span", { class: "mention", title: id }, "@" + names.group(id));
  return h("span", { class: "mention loud" }, "@" + id);
}

// mrkdwn turns Slack's own markup within one line of text into nodes.
export function mrkdwn(text, names) {
  return walk(holes(text, mrkdwnPieces, names), mrkdwnMarks);
}

// markdown turns the inline part of Markdown into nodes.
export function markdown(text, names, depth = 0) {
  return walk(holes(text, markdownPieces(depth), names), markdownMarks);
}

// holes takes out the pieces in which no emphasis can begin or end (code, links, mentions, escapes) and leaves one mark each.
function holes(text, pieces, names) {
  const src = String(text).replaceAll(hole, "");
  const made = [];
  let out = "";
  let i = 0;
  const seen = new Map(); // where each closing mark stands next: the text is searched once for each, not once for each opening
  const find = (what, from) => {
    const known = seen.get(what);
    if (known === -1 || known >= from) return known;
    const at = src.indexOf(what, from);
    seen.set(what, at);
    return at;
  };
  while (i < src.length) {
    const got = pieces(src, i, find, names);
    if (!got) {
      out += src[i++];
      continue;
    }
    made.push(got.node || document.createTextNode(got.text));
    out += hole;
    i = got.end;
  }
  return { src: out, made };
}

function codeSpan(src, i, find) {
  if (src[i] !== "`") return null;
  let n = 1;
  while (src[i + n] === "`") n++;
  const fence = "`".repeat(n);
  let end = find(fence, i + n);
  while (end >= 0 && src[end + n] === "`") {
    while (src[end] === "`") end++;
    end = find(fence, end);
  }
  if (end < 0 || end === i + n) return { text: fence, end: i + n };
  let body = src.slice(i + n, end);
  if (n > 1 && body.startsWith(" ") && body.endsWith(" ") && body.length > 2) body = body.slice(1, -1);
  return { node: h("code", {}, soft(body)), end: end + n };
}

function colons(src, i) {
  if (src[i] !== ":") return null;
  const m = /^:([a-z0-9_+-]{1,40}):/.exec(src.slice(i, i + 44));
  const sign = m && emoji(m[1]);
  return sign ? { node: h("span", { class: "emoji", role: "img", "aria-label": m[1].replaceAll("_", " "), title: m[0] }, sign), end: i + m[0].length } : null;
}

function bare(src, i) {
  if (src[i] !== "h" || /[\w@/]/.test(src[i - 1] || "")) return null;
  const m = /^https?:\/\/[^\s<>"'`|\uE000]{1,2000}/.exec(src.slice(i, i + 2010));
  if (!m) return null;
  const address = m[0].replace(/[.,;:!?*_~)\]]+$/, "");
  return { node: link(address), end: i + address.length };
}

// angle reads Slack's <…> tokens, which stand in both kinds of markup.
function angle(src, i, find, names) {
  if (src[i] !== "<") return null;
  const close = find(">", i + 1);
  if (close < 0 || close - i > 3200) return null;
  const inside = src.slice(i + 1, close);
  if (inside.includes("<") || inside.includes("\n")) return null;
  const end = close + 1;
  const bar = inside.indexOf("|");
  const head = bar < 0 ? inside : inside.slice(0, bar);
  const label = bar < 0 ? "" : unescape(inside.slice(bar + 1));
  let m;
  if ((m = /^@([UWB][A-Z0-9]+)$/.exec(head))) return { node: mention("user", m[1], names), end };
  if ((m = /^#([CGD][A-Z0-9]+)$/.exec(head))) return { node: mention("channel", m[1], names), end };
  if ((m = /^!subteam\^(S[A-Z0-9]+)$/.exec(head))) return { node: mention("group", m[1], names), end };
  if ((m = /^!(here|channel|everyone)$/.exec(head))) return { node: mention("loud", m[1], names), end };
  if ((m = /^!date\^(\d{1,12})\^/.exec(head))) {
    return { node: h("time", { title: label }, new Date(Number(m[1]) * 1000).toLocaleString()), end };
  }
  if (/^(https?:\/\/|mailto:)/i.test(head)) return { node: label ? link(unescape(head), label) : link(unescape(head)), end };
  return null;
}

// unescape undoes the three escapes of Slack's texts.
export function unescape(s) {
  return s.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

function entity(src, i) {
  if (src[i] !== "&") return null;
  const m = /^&(amp|lt|gt);/.exec(src.slice(i, i + 5));
  return m ? { text: unescape(m[0]), end: i + m[0].length } : null;
}

function mrkdwnPieces(src, i, find, names) {
  return codeSpan(src, i, find) || angle(src, i, find, names) || entity(src, i) || colons(src, i) || bare(src, i);
}

function markdownPieces(depth) {
  return (src, i, find, names) => {
    if (src[i] === "\\" && /[!-/:-@[-`{-~]/.test(src[i + 1] || "")) return { text: src[i + 1], end: i + 2 };
    return codeSpan(src, i, find) || bracket(src, i, find, names, depth) || angle(src, i, find, names) || entity(src, i) || colons(src, i) || bare(src, i);
  };
}

// bracket reads [label](address) and ![name](address).
function bracket(src, i, find, names, depth) {
  const image = src[i] === "!" && src[i + 1] === "[";
  const open = image ? i + 1 : i;
  if (src[open] !== "[" || depth > 2) return null;
  const close = find("](", open + 1);
  if (close < 0 || close - open > 2000) return null;
  const label = src.slice(open + 1, close);
  if (!image && label.includes("[") && !label.includes("](")) {
    // The label itself holds a bracket: the inner one begins the link.
    if (label.lastIndexOf("[") > label.lastIndexOf("]")) return null;
  }
  const m = /^\(\s*(<[^<>\n]{1,3000}>|(?:[^\s()]|\([^\s()]*\)){1,3000})(?:\s+"[^"\n]{0,500}"|\s+'[^'\n]{0,500}')?\s*\)/.exec(src.slice(close + 1, close + 4000));
  if (!m) return null;
  const address = m[1].replace(/^<|>$/g, "");
  const end = close + 1 + m[0].length;
  if (image) return { node: picture(address, label), end };
  return { node: link(address, ...(label ? markdown(label, names, depth + 3) : [address])), end };
}

const mrkdwnMarks = { "*": "strong", "_": "em", "~": "s" };
const markdownMarks = { "**": "strong", "__": "strong", "~~": "s", "*": "em", "_": "em" };

// walk reads emphasis in one pass, with a stack of what is open.
function walk({ src, made }, marks) {
  const root = { mark: "", nodes: [] };
  const stack = [root];
  const open = {};
  let text = "";
  let next = 0;
  const top = () => stack[stack.length - 1];
  const flush = () => {
    if (text) lines(top().nodes, text);
    text = "";
  };
  const give = () => { // what is open at the top turns out to be plain text
    const lost = stack.pop();
    open[lost.mark]--;
    top().nodes.push(lost.mark, ...lost.nodes);
  };
  let i = 0;
  while (i < src.length) {
    const c = src[i];
    if (c === hole) {
      flush();
      top().nodes.push(made[next++]);
      i++;
      continue;
    }
    const mark = c === "*" || c === "_" || c === "~" ? which(src, i, marks, top().mark) : "";
    if (!mark) {
      text += c;
      i++;
      continue;
    }
    const before = src[i - 1] || " ";
    const after = src[i + mark.length] || " ";
    const tight = mark !== "*" && mark !== "**" ? true : marks === mrkdwnMarks;
    if (open[mark] > 0 && !/\s/.test(before) && !(tight && /[\p{L}\p{N}]/u.test(after))) {
      flush();
      while (top().mark !== mark) give();
      const done = stack.pop();
      open[mark]--;
      top().nodes.push(done.nodes.length ? h(marks[mark], {}, done.nodes) : mark + mark);
    } else if (!/\s/.test(after) && !(tight && /[\p{L}\p{N}]/u.test(before)) && stack.length <= deepest) {
      flush();
      stack.push({ mark, nodes: [] });
      open[mark] = (open[mark] || 0) + 1;
    } else {
      text += mark;
    }
    i += mark.length;
  }
  flush();
  while (stack.length > 1) give();
  return root.nodes;
}

function which(src, i, marks, innermost) {
  if (innermost && src.startsWith(innermost, i) && marks[innermost]) return innermost;
  const two = src.slice(i, i + 2);
  if (two.length === 2 && two[0] === two[1] && marks[two]) return two;
  return marks[src[i]] ? src[i] : "";
}

// lines pushes text with its line breaks.
function lines(nodes, text) {
  const parts = text.split("\n");
  parts.forEach((p, n) => {
    if (n) nodes.push(h("br"));
    if (p) nodes.push(...soft(p));
  });
}
