// Markdown's blocks become elements: headings, paragraphs, lists with tasks, quotes, fences, tables, rules. The text may be
// unfinished, since it also arrives piece by piece: an open fence runs to the end.

import { h } from "./dom.js";
import { markdown as inline, mrkdwn as inlineMrkdwn } from "./inline.js";

const deepest = 6; // quotes and lists within each other beyond this are read as plain paragraphs

// markdown gives the elements of a Markdown text.
export function markdown(text, names) {
  return blocks(String(text).replaceAll("\r\n", "\n").split("\n"), names, 0);
}

// mrkdwn gives the elements of a text in Slack's markup: fences and quotes are its only blocks.
export function mrkdwn(text, names) {
  const out = [];
  String(text).split(/```/).forEach((part, n, all) => {
    if (n % 2 === 1 && n < all.length - 1) {
      out.push(fence(unescapeCode(part).replace(/^\n|\n$/g, ""), ""));
      return;
    }
    const words = n % 2 === 1 ? "```" + part : part;
    quotes(words, names, out);
  });
  return out;
}

function unescapeCode(s) {
  return s.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&").replace(/<(https?:\/\/[^|>\s]+)(\|[^>]*)?>/g, "$1");
}

function quotes(text, names, out) {
  let run = [];
  let quoted = false;
  const end = () => {
    const words = run.join("\n").replace(/^\n+|\n+$/g, "");
    if (words) {
      const p = h("p", { dir: "auto" }, inlineMrkdwn(words, names));
      out.push(quoted ? h("blockquote", {}, p) : p);
    }
    run = [];
  };
  for (const line of text.split("\n")) {
    const m = /^(?:&gt;|>) ?(.*)$/.exec(line);
    if (Boolean(m) !== quoted) {
      end();
      quoted = Boolean(m);
    }
    run.push(m ? m[1] : line);
  }
  end();
}

// fence shows code with a button that copies it.
export function fence(code, language) {
  const body = h("code", {}, code);
  const copy = h("button", { type: "button", class: "copy", on: { click: () => copied(copy, code) } }, "Copy");
  return h("div", { class: "fence" },
    h("div", { class: "fence-head" }, h("span", {}, language), copy),
    h("pre", { tabindex: "0", role: "region", "aria-label": language ? "Code, " + language : "Code" }, body));
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Could not copy";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function blocks(rows, names, depth) {
  const out = [];
  let i = 0;
  while (i < rows.length) {
    const row = rows[i];
    let m;
    if (!row.trim()) {
      i++;
    } else if ((m = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/.exec(row))) {
      i = readFence(rows, i, m, out);
    } else if ((m = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(row))) {
      out.push(h("h" + Math.min(m[1].length + 2, 6), { class: "h" + m[1].length, dir: "auto" }, inline(m[2], names)));
      i++;
    } else if (/^ {0,3}([-*_])(\s*\1){2,}\s*$/.test(row)) {
      out.push(h("hr"));
      i++;
    } else if (depth < deepest && /^ {0,3}>/.test(row)) {
      i = readQuote(rows, i, names, depth, out);
    } else if (depth < deepest && item(row)) {
      i = readList(rows, i, names, depth, out);
    } else if (row.includes("|") && ruler(rows[i + 1])) {
      i = readTable(rows, i, names, out);
    } else {
      i = readParagraph(rows, i, names, depth, out);
    }
  }
  return out;
}

function readFence(rows, i, m, out) {
  const closing = new RegExp("^ {0,3}" + (m[1][0] === "`" ? "`" : "~") + "{" + m[1].length + ",}\\s*$");
  const body = [];
  for (i++; i < rows.length && !closing.test(rows[i]); i++) body.push(rows[i]);
  out.push(fence(body.join("\n"), m[2].trim().split(/\s/)[0].slice(0, 30)));
  return i + 1;
}

function readQuote(rows, i, names, depth, out) {
  const body = [];
  for (; i < rows.length && /^ {0,3}>/.test(rows[i]); i++) body.push(rows[i].replace(/^ {0,3}> ?/, ""));
  out.push(h("blockquote", {}, blocks(body, names, depth + 1)));
  return i;
}

// item reads the head of a list's entry.
function item(row) {
  const m = /^(\s*)([-*+•]|\d{1,9}[.)])(\s+)(.*)$/.exec(row);
  return m && { indent: m[1].length, mark: m[2], inner: m[1].length + m[2].length + Math.min(m[3].length, 4), text: m[4] };
}

function readList(rows, i, names, depth, out) {
  const first = item(rows[i]);
  const ordered = /\d/.test(first.mark);
  const list = h(ordered ? "ol" : "ul", ordered && Number.parseInt(first.mark, 10) !== 1 ? { start: Number.parseInt(first.mark, 10) } : {});
  while (i < rows.length) {
    const head = item(rows[i]);
    if (!head || head.indent > first.indent + 1 || head.indent < first.indent || /\d/.test(head.mark) !== ordered) break;
    const body = [head.text];
    for (i++; i < rows.length; i++) {
      const row = rows[i];
      if (!row.trim()) {
        const after = rows[i + 1];
        if (after === undefined || !after.trim() || /^\s*/.exec(after)[0].length < Math.min(head.inner, first.indent + 2)) break;
        body.push("");
        continue;
      }
      const deep = /^\s*/.exec(row)[0].length;
      if (deep >= Math.min(head.inner, first.indent + 2)) body.push(row.slice(Math.min(deep, head.inner)));
      else if (item(row) || /^ {0,3}(#{1,6}\s|>|`{3,}|~{3,})/.test(row)) break;
      else body.push(row.trim());
    }
    list.append(entry(body, names, depth));
    if (i < rows.length && !rows[i].trim() && item(rows[i + 1] || "")) i++; // one empty line between entries
  }
  out.push(list);
  return i;
}

function entry(body, names, depth) {
  const m = /^\[([ xX])\]\s+(.*)$/.exec(body[0]);
  if (!m) return h("li", { dir: "auto" }, unwrapped(blocks(body, names, depth + 1)));
  const done = m[1] !== " ";
  body[0] = m[2];
  return h("li", { class: "task", dir: "auto" },
    h("input", { type: "checkbox", checked: done, disabled: true, "aria-label": done ? "done" : "not done" }),
    h("div", {}, unwrapped(blocks(body, names, depth + 1))));
}

// unwrapped lets a short entry stand without the paragraph around it.
function unwrapped(made) {
  if (made.length && made[0].tagName === "P") return [...made[0].childNodes, ...made.slice(1)];
  return made;
}

function ruler(row) {
  return row !== undefined && row.length < 2000 && row.includes("-") && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(row) && (row.includes("|") || /^\s*:?-+:?\s*$/.test(row));
}

function cells(row) {
  const s = row.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  const out = [];
  let cell = "";
  let code = false;
  for (let i = 0; i < s.length; i++) {
    if (s[i] === "\\" && s[i + 1] === "|") {
      cell += "|";
      i++;
    } else if (s[i] === "|" && !code) {
      out.push(cell.trim());
      cell = "";
    } else {
      if (s[i] === "`") code = !code;
      cell += s[i];
    }
  }
  out.push(cell.trim());
  return out;
}

function readTable(rows, i, names, out) {
  const head = cells(rows[i]);
  const sides = cells(rows[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "end") : "start"));
  const body = [];
  for (i += 2; i < rows.length && rows[i].includes("|") && rows[i].trim(); i++) body.push(cells(rows[i]));
  out.push(table([head, ...body].map((r) => head.map((_, n) => inline(r[n] || "", names))), sides));
  return i;
}

// table shows rows of nodes; the first row is the head. A wide one scrolls within itself.
export function table(rows, sides) {
  const side = (n) => "side-" + ((sides && sides[n]) || "start");
  const [head, ...body] = rows;
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    h("table", {},
      h("thead", {}, h("tr", {}, (head || []).map((c, n) => h("th", { scope: "col", class: side(n), dir: "auto" }, c)))),
      h("tbody", {}, body.map((r) => h("tr", {}, r.map((c, n) => inOneLine(h("td", { class: side(n), dir: "auto" }, c))))))));
}

// inOneLine keeps a cell of a few words, such as a figure with its unit, in one line.
function inOneLine(cell) {
  if (cell.textContent.length < 20) cell.classList.add("one-line");
  return cell;
}

function readParagraph(rows, i, names, depth, out) {
  const body = [rows[i]];
  for (i++; i < rows.length; i++) {
    const row = rows[i];
    if (!row.trim() || /^ {0,3}(#{1,6}\s|>|`{3,}|~{3,})/.test(row) || (depth < deepest && item(row))) break;
    if (row.includes("|") && ruler(rows[i + 1])) break;
    if (/^ {0,3}(=+|-{2,})\s*$/.test(row)) {
      out.push(h(row.includes("=") ? "h3" : "h4", { class: row.includes("=") ? "h1" : "h2", dir: "auto" }, inline(body.join("\n"), names)));
      return i + 1;
    }
    body.push(row.replace(/^\s+/, ""));
  }
  out.push(h("p", { dir: "auto" }, inline(body.join("\n").trimEnd(), names)));
  return i;
}
