// Small tools for building the page's elements. Text always becomes text nodes; no string is ever parsed as HTML.

const svgNS = "http://www.w3.org/2000/svg";

// h makes an element. Properties: class, dataset, on (listeners), aria-*, role and plain attributes; false, null and undefined are left out.
export function h(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === false || v === null || v === undefined || k === "dir") continue;
    if (k === "class") e.className = v;
    else if (k === "dataset") Object.assign(e.dataset, v);
    else if (k === "on") for (const [name, f] of Object.entries(v)) e.addEventListener(name, f);
    else if (k === "value" || k === "checked" || k === "disabled" || k === "hidden" || k === "selected") e[k] = v;
    else e.setAttribute(k, v === true ? "" : v);
  }
  add(e, children);
  // Last: an element with dir="auto" looks through all of its text for each child that comes.
  if (props?.dir) e.dir = props.dir;
  return e;
}

// add appends children: nodes, strings, numbers and arrays of them.
export function add(e, children) {
  for (const c of children) {
    if (c === null || c === undefined || c === false) continue;
    if (Array.isArray(c)) add(e, c);
    else e.append(c instanceof Node ? c : String(c));
  }
  return e;
}

// soft gives a text as nodes in which a long run without spaces can be broken: laying out one such run takes time that
// grows with the square of its length.
export function soft(text) {
  const out = [];
  let from = 0;
  for (const m of text.matchAll(/\S{200}(?=\S)/gu)) {
    out.push(text.slice(from, m.index + m[0].length), h("wbr"));
    from = m.index + m[0].length;
  }
  out.push(text.slice(from));
  return out;
}

// swap replaces what an element holds.
export function swap(e, ...children) {
  const f = document.createDocumentFragment();
  add(f, children);
  e.replaceChildren(f);
  return e;
}

// place makes a box hold these nodes in this order, and moves only those that are out of place, so that focus, selections
// and scroll positions within the others stay, and a click on one of them is not lost.
export function place(box, nodes) {
  const wanted = new Set(nodes);
  const old = new Map(); // dividers, by what they say
  for (const e of [...box.children]) {
    if (wanted.has(e)) continue;
    if (e.classList.contains("day")) old.set(e.className + e.textContent, e);
    else e.remove();
  }
  const all = nodes.map((n) => {
    if (!n.classList.contains("day")) return n;
    const key = n.className + n.textContent;
    const same = old.get(key);
    old.delete(key);
    return same || n;
  });
  for (const e of old.values()) e.remove();
  let at = box.firstChild;
  for (const n of all) {
    if (at === n) at = at.nextSibling;
    else box.insertBefore(n, at);
  }
}

// The icons are drawn on a 20 x 20 grid with a stroke of 1.6, so that they look like one hand's work.
const paths = {
  hash: "M7.5 3 5.5 17M14.5 3l-2 14M3.5 7.5h14M2.5 12.5h14",
  lock: "M5 9h10v8H5zM7 9V6.5a3 3 0 0 1 6 0V9",
  shared: "M6.5 10a3 3 0 1 0 6 0 3 3 0 1 0-6 0M12.5 10H18M2 10h4.5",
  reply: "M4 4.5h12v8.5H9.5L6 16v-3H4z",
  more: "M4.5 10a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0M9.4 10a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0M14.3 10a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0",
  close: "M5 5l10 10M15 5 5 15",
  back: "M12 4 6 10l6 6",
  send: "M3 10 17 3.5 13 17l-3.5-5.5z",
  stop: "M6 6h8v8H6z",
  down: "M10 4v12M5 11l5 5 5-5",
  link: "M8.5 11.5a3 3 0 0 0 4.3 0l2.6-2.7a3 3 0 0 0-4.2-4.2L10 5.8M11.5 8.5a3 3 0 0 0-4.3 0L4.6 11.2a3 3 0 0 0 4.2 4.2L10 14.2",
  file: "M5.5 2.5h6l3.5 3.5v11.5h-9.5zM11.5 2.5V6H15",
  image: "M3 4.5h14v11H3zM3 13l4-4 4 4 2-2 4 3.5M12.5 8h.01",
  check: "M4 10.5 8 14.5 16 5.5",
  cross: "M6 6l8 8M14 6l-8 8",
  clock: "M10 3a7 7 0 1 0 0 14 7 7 0 1 0 0-14M10 6v4.5l3 1.5",
  up: "M6 9.5v7H3v-7zM6 9.5 9.5 3c1.5 0 2 1 1.5 2.5L10.3 8H16c1 0 1.5.8 1.3 1.700l-1.2 5.300c-.2.9-.8 1.5-1.7 1.5H6",
  thumbdown: "M14 10.5v-7h3v7zM14 10.5 10.5 17c-1.5 0-2-1-1.5-2.5L9.7 12H4c-1 0-1.5-.8-1.3-1.700L3.9 5c.2-.9.8-1.5 1.7-1.5H14",
  trash: "M4 6h12M8 6V4h4v2M5.5 6l.8 11h7.400l.8-11",
  pulse: "M2 10h4l2-6 4 12 2-6h4",
  eye: "M2 10s3-5.5 8-5.5S18 10 18 10s-3 5.5-8 5.5S2 10 2 10M10 7.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 1 0 0-5",
  caret: "M6 8l4 4 4-4",
  pause: "M7 5v10M13 5v10",
  play: "M6 4l10 6-10 6z",
  copy: "M7 7h9v10H7zM4 13V3h9",
  plus: "M10 4v12M4 10h12",
  jack: "M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 1 0 0-15M10 7a3 3 0 1 0 0 6 3 3 0 1 0 0-6",
};

// icon draws one of the page's icons. It says nothing to a screen reader: the control that bears it has a label.
export function icon(name) {
  const s = document.createElementNS(svgNS, "svg");
  s.setAttribute("viewBox", "0 0 20 20");
  s.setAttribute("class", "icon");
  s.setAttribute("aria-hidden", "true");
  const p = document.createElementNS(svgNS, "path");
  p.setAttribute("d", paths[name] || paths.jack);
  s.append(p);
  return s;
}

const hours = new Intl.DateTimeFormat([], { hour: "numeric", minute: "2-digit" });

// clock shows a Slack timestamp ("1700000000.000100") as the reader's time of day.
export function clock(ts) {
  return hours.format(when(ts));
}

// shortClock does so in as little room as there is in the margin: without AM and PM.
export function shortClock(ts) {
  return hours.formatToParts(when(ts)).filter((p) => p.type !== "dayPeriod").map((p) => p.value).join("").trim();
}

let today = 0; // midnight for which the names of days are remembered
const named = new Map(); // by quarter of an hour, the smallest step of time zones

// day names the day of a timestamp the way a divider says it. Dates are slow to write, and each message is asked for its own.
export function day(ts) {
  const now = midnight(new Date());
  if (now !== today) named.clear();
  today = now;
  const key = Math.floor(Number.parseFloat(ts) / 900);
  if (!named.has(key)) named.set(key, dayName(when(ts), now));
  return named.get(key);
}

function dayName(d, now) {
  const days = Math.round((now - midnight(d)) / 86400000);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return d.toLocaleDateString([], { weekday: "long", day: "numeric", month: "long", year: "numeric" });
}

// full shows a timestamp whole.
export function full(ts) {
  return when(ts).toLocaleString();
}

function when(ts) {
  return new Date(Number.parseFloat(ts) * 1000);
}

function midnight(d) {
  return new Date(d.getFullYear(), d.getMonth(), d.getDate()).getTime();
}

// count says "1 reply", "2 replies".
export function count(n, one, many) {
  return n + " " + (n === 1 ? one : many);
}
