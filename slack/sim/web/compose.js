// The box in which people write: Enter sends, @ # and : suggest, what is typed becomes Slack's markup only when it is sent.

import { h, swap, icon } from "./dom.js";
import { avatar, badge } from "./message.js";
import { like } from "./emoji.js";

const longest = 40000; // characters of a message: Slack cuts what is longer

export class Composer {
  // o: testid, label, page, send(text, files) -> promise
  constructor(page, o) {
    this.page = page;
    this.o = o;
    this.files = [];
    this.menu = h("ul", { class: "suggest", role: "listbox", id: o.id + "-suggest", "aria-label": "Suggestions", hidden: true });
    this.box = h("textarea", {
      id: o.id, rows: "1", class: "compose-box", dataset: { testid: o.testid }, "aria-label": o.label, placeholder: o.label, dir: "auto",
      autocomplete: "off", spellcheck: "true", role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": o.id + "-suggest",
      on: { input: () => this.typed(), keydown: (ev) => this.keys(ev), blur: () => this.close(), beforeinput: (ev) => this.newline(ev), click: () => this.suggest(), paste: (ev) => this.pasted(ev) },
    });
    this.chips = h("div", { class: "compose-files" });
    this.picker = h("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files", on: { change: () => this.take([...this.picker.files]) } });
    this.sendButton = h("button", { type: "button", class: "send", dataset: { testid: o.sendid }, "aria-label": "Send", title: "Send (Enter)", disabled: true, on: { click: () => this.send() } }, icon("send"));
    const attach = h("button", { type: "button", class: "attach", "aria-label": "Attach a file", title: "Attach a file", on: { click: () => this.picker.click() } }, icon("plus"));
    this.element = h("div", { class: "compose" }, this.menu, this.chips,
      h("div", { class: "compose-row" }, attach, this.picker, this.box, this.sendButton),
      h("div", { class: "compose-hint", "aria-hidden": "true" }, h("kbd", {}, "Enter"), " sends  ", h("kbd", {}, "Shift"), "+", h("kbd", {}, "Enter"), " new line  ", h("kbd", {}, "@"), " mentions"));
  }

  label(words) {
    this.box.placeholder = words;
    this.box.setAttribute("aria-label", words);
  }

  get text() {
    return this.box.value;
  }

  set text(s) {
    this.box.value = s;
    this.typed();
  }

  focus() {
    this.box.focus({ preventScroll: true });
    this.box.setSelectionRange(this.box.value.length, this.box.value.length);
  }

  typed() {
    this.box.style.height = "auto";
    this.box.style.height = Math.min(this.box.scrollHeight, window.innerHeight * 0.4) + "px";
    this.sendButton.disabled = !this.box.value.trim() && !this.files.length;
    this.suggest();
  }

  // newline keeps the line break out that some ways of typing send beside an Enter that already meant something.
  newline(ev) {
    if (this.handled && ev.inputType === "insertLineBreak") ev.preventDefault();
  }

  keys(ev) {
    this.handled = false;
    if (ev.isComposing) return;
    if (!this.menu.hidden) {
      const move = { ArrowDown: 1, ArrowUp: -1 }[ev.key];
      if (move) {
        ev.preventDefault();
        this.pick((this.at + move + this.items.length) % this.items.length);
        return;
      }
      if (ev.key === "Enter" && !ev.shiftKey || ev.key === "Tab") {
        ev.preventDefault();
        this.handled = true;
        this.take1(this.items[this.at]);
        return;
      }
      if (ev.key === "Escape") {
        ev.preventDefault();
        ev.stopPropagation();
        this.close();
        return;
      }
    }
    if (ev.key === "Enter" && !ev.shiftKey && !ev.altKey && !ev.ctrlKey) {
      ev.preventDefault();
      this.handled = true;
      this.send();
    } else if (ev.key === "ArrowUp" && !this.box.value && this.o.last) {
      const m = this.o.last();
      if (m) {
        ev.preventDefault();
        this.page.edit(m);
      }
    }
  }

  async send() {
    const text = this.box.value.trim();
    if (!text && !this.files.length || this.sending) return;
    if ([...text].length > longest) {
      this.page.toast(`A message has at most ${longest.toLocaleString()} characters.`);
      return;
    }
    this.sending = true;
    const before = this.box.value;
    const files = this.files;
    this.text = "";
    this.files = [];
    this.drawFiles();
    try {
      await this.o.send(markup(text, this.page.store), files);
    } catch (err) {
      if (!this.box.value) this.text = before; // nothing that was written is lost
      this.files = files;
      this.drawFiles();
      this.page.toast("Not sent: " + err.message);
    } finally {
      this.sending = false;
      this.typed();
    }
  }

  // suggest offers people, channels and emoji for the word at the cursor.
  suggest() {
    const upto = this.box.value.slice(0, this.box.selectionStart);
    const m = /(^|[\s(])([@#:])([\p{L}\p{N}_+.-]{0,30})$/u.exec(upto);
    const found = m && (m[2] !== ":" || m[3].length > 1) ? this.find(m[2], m[3].toLowerCase()) : [];
    if (!found.length || document.activeElement !== this.box) {
      this.close();
      return;
    }
    this.from = upto.length - m[3].length - 1;
    this.items = found;
    swap(this.menu, found.map((it, n) => h("li", { id: `${this.o.id}-o${n}`, role: "option", "aria-selected": "false", on: {
      mousedown: (ev) => { ev.preventDefault(); this.take1(it); },
    } }, it.face, h("bdi", {}, it.shown), it.note)));
    this.menu.hidden = false;
    this.box.setAttribute("aria-expanded", "true");
    this.pick(0);
  }

  find(sign, start) {
    const { store, me } = this.page;
    if (sign === ":") return like(start).map(([n, s]) => ({ text: s + " ", shown: ":" + n + ":", face: h("span", { class: "emoji" }, s) }));
    if (sign === "#") {
      return store.rooms(me).mine.filter((c) => c.name?.toLowerCase().startsWith(start)).slice(0, 8)
        .map((c) => ({ text: "#" + c.name + " ", shown: c.name, face: icon("hash") }));
    }
    const fits = (n) => n.toLowerCase().split(/[\s.-]+/).concat(n.toLowerCase()).some((w) => w.startsWith(start));
    const here = this.o.members?.() || [];
    return [...store.people.values()].filter((p) => p.id !== me && fits(p.name))
      .sort((a, b) => rank(b, here) - rank(a, here) || a.name.localeCompare(b.name)).slice(0, 8)
      .map((p) => ({ text: "@" + p.name + " ", shown: p.name, face: avatar(p, p.app && store.apps.get(p.app)), note: badge(p) }));
  }

  pick(n) {
    this.at = n;
    [...this.menu.children].forEach((li, i) => li.setAttribute("aria-selected", String(i === n)));
    this.menu.children[n]?.scrollIntoView({ block: "nearest" });
    this.box.setAttribute("aria-activedescendant", `${this.o.id}-o${n}`);
  }

  take1(it) {
    const rest = this.box.value.slice(this.box.selectionStart);
    const head = this.box.value.slice(0, this.from) + it.text;
    this.box.value = head + rest.replace(/^ /, "");
    this.box.setSelectionRange(head.length, head.length);
    this.close();
    this.typed();
  }

  close() {
    this.menu.hidden = true;
    this.box.setAttribute("aria-expanded", "false");
    this.box.removeAttribute("aria-activedescendant");
  }

  pasted(ev) {
    const files = [...(ev.clipboardData?.files || [])];
    if (!files.length) return;
    ev.preventDefault();
    this.take(files);
  }

  async take(files) {
    for (const f of files.slice(0, 10)) {
      if (f.size > 5 << 20) this.page.toast(`${f.name} is larger than 5 MiB.`);
      else this.files.push({ name: f.name, type: f.type || "application/octet-stream", content: await base64(f) });
    }
    this.picker.value = "";
    this.drawFiles();
    this.typed();
  }

  drawFiles() {
    swap(this.chips, this.files.map((f) => h("span", { class: "chip file" }, icon("file"), h("bdi", {}, f.name), h("button", {
      type: "button", class: "chip-x", "aria-label": "Remove " + f.name, on: { click: () => { this.files = this.files.filter((x) => x !== f); this.drawFiles(); this.typed(); } },
    }, icon("close")))));
  }
}

// rank puts the app first, then those who are in the channel.
function rank(p, here) {
  return (p.app ? 4 : 0) + (here.includes(p.id) ? 2 : 0);
}

async function base64(f) {
  const bytes = new Uint8Array(await f.arrayBuffer());
  let s = "";
  for (let i = 0; i < bytes.length; i += 0x8000) s += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(s);
}

// markup turns the names in what a person typed into Slack's form (<@U…>, <#C…>, <!here>). Code stays as it is. The rest is
// escaped by the simulator, as Slack's own clients and servers do.
export function markup(text, store) {
  const people = [...store.people.values()].map((p) => ["@" + p.name, `<@${p.id}>`]);
  const rooms = [...store.channels.values()].filter((c) => c.name).map((c) => ["#" + c.name, `<#${c.id}>`]);
  const groups = [...store.groups.values()].map((g) => ["@" + g.handle, `<!subteam^${g.id}>`]);
  const loud = ["here", "channel", "everyone"].map((x) => ["@" + x, `<!${x}>`]);
  const known = [...people, ...rooms, ...groups, ...loud].sort((a, b) => b[0].length - a[0].length).map(([name, id]) => [name.toLowerCase(), id]);
  return text.split(/(```[\s\S]*?```|`[^`\n]+`)/).map((part, n) => (n % 2 ? part : names(part, known))).join("");
}

function names(s, known) {
  let out = "";
  const low = s.toLowerCase();
  for (let i = 0; i < s.length;) {
    const it = (s[i] === "@" || s[i] === "#") && !/[\p{L}\p{N}_<]/u.test(s[i - 1] || " ")
      ? known.find(([name]) => low.startsWith(name, i) && !/[\p{L}\p{N}_]/u.test(s[i + name.length] || " ")) : null;
    out += it ? it[1] : s[i];
    i += it ? it[0].length : 1;
  }
  return out;
}

// typed turns Slack's form back into what a person would type, to edit it.
export function typed(text, store) {
  return text
    .replace(/<@([A-Z0-9]+)(\|[^>]*)?>/g, (_, id) => "@" + (store.people.get(id)?.name || id))
    .replace(/<#([A-Z0-9]+)(\|[^>]*)?>/g, (_, id) => "#" + (store.channels.get(id)?.name || id))
    .replace(/<!subteam\^([A-Z0-9]+)(\|[^>]*)?>/g, (_, id) => "@" + (store.groups.get(id)?.handle || id))
    .replace(/<!(here|channel|everyone)>/g, "@$1")
    .replace(/<((?:https?|mailto):[^|>]+)(\|[^>]*)?>/g, "$1")
    .replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}
