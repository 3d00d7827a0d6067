// Modals of the app, the page's own questions, and menus.

import { h, swap, icon } from "./dom.js";
import { blocks } from "./blocks.js";

// Form gathers what is filled in. With it the blocks of a view become usable.
export class Form {
  constructor(page, view) {
    this.page = page;
    this.view = view;
    this.fields = [];
  }

  // at says where the view's blocks stand (see blocks.js).
  get at() {
    return {
      names: this.page.names,
      field: (block, action, type, read) => this.fields.push({ block, action, type, read }),
      act: (e, block, value) => this.page.clickView(this.view, e, value),
      confirm: (c) => this.page.ask(c),
    };
  }

  // state gives the values by block and action, in the form of view.state.values.
  state() {
    const out = {};
    for (const f of this.fields) (out[f.block] ||= {})[f.action] = { type: f.type, ...f.read() };
    return out;
  }
}

export class Modal {
  constructor(page) {
    this.page = page;
    this.box = document.getElementById("modal");
    this.box.addEventListener("cancel", (ev) => {
      ev.preventDefault();
      this.leave();
    });
    this.box.addEventListener("click", (ev) => { if (ev.target === this.box) this.leave(); });
    this.box.addEventListener("keydown", (ev) => { // Enter alone is a new line in a large field
      if (ev.key === "Enter" && (ev.ctrlKey || ev.metaKey) && ev.target.tagName === "TEXTAREA") this.box.querySelector("form")?.requestSubmit();
    });
  }

  // draw shows the topmost view of the person, or none.
  draw() {
    const open = [...this.page.store.views.values()].filter((v) => v.kind === "modal" && v.person === this.page.me);
    const v = open[open.length - 1];
    if (!v) {
      if (this.box.open) this.box.close();
      this.shown = null;
      this.back?.focus?.();
      this.back = null;
      return;
    }
    const errors = JSON.stringify(v.errors || {});
    if (this.shown?.id === v.id && this.shown.hash === v.hash) {
      if (errors !== this.errors) this.mark(v.errors || {});
      this.errors = errors;
      return;
    }
    if (!this.box.open) this.back = document.activeElement;
    const kept = this.shown?.id === v.id ? this.form.state() : null;
    this.shown = v;
    this.errors = errors;
    this.build(v, kept);
    if (!this.box.open) this.box.showModal();
    if (!kept) { // the dialog itself would choose the button that closes it
      (this.box.querySelector(".modal-body input, .modal-body textarea, .modal-body select") || this.box.querySelector("button"))?.focus();
    }
    this.mark(v.errors || {});
  }

  build(v, kept) {
    const b = v.body || {};
    this.form = new Form(this.page, v);
    const words = (t, or) => (typeof t === "string" ? t : t?.text) || or;
    const body = h("div", { class: "modal-body" }, blocks(number(b.blocks), this.form.at));
    this.submit = b.submit ? h("button", { type: "submit", class: "action primary", dataset: { testid: "modal-submit" } }, words(b.submit, "Submit")) : null;
    swap(this.box, h("form", { method: "dialog", class: "modal-frame", on: { submit: (ev) => { ev.preventDefault(); this.send(v); } } },
      h("header", { class: "modal-head" }, h("h2", { id: "modal-title", dir: "auto" }, words(b.title, "")),
        h("button", { type: "button", class: "icon-button", "aria-label": "Close", dataset: { testid: "modal-close" }, on: { click: () => this.leave() } }, icon("close"))),
      body,
      h("footer", { class: "modal-foot" }, h("button", { type: "button", class: "action", on: { click: () => this.leave() } }, words(b.close, this.submit ? "Cancel" : "Close")), this.submit)));
    this.box.setAttribute("aria-labelledby", "modal-title");
    if (kept) this.restore(kept);
  }

  // restore puts back what was typed before the app changed the view.
  restore(kept) {
    for (const e of this.box.querySelectorAll("input.field-input, textarea.field-input")) {
      const block = e.closest("[data-block]")?.dataset.block;
      const old = kept[block]?.[e.dataset.action]?.value;
      if (old && !e.value) e.value = old;
    }
  }

  mark(errors) {
    for (const e of this.box.querySelectorAll("[data-block]")) {
      const place = e.querySelector(".input-error");
      if (!place) continue;
      const words = errors[e.dataset.block] || "";
      place.textContent = words;
      e.classList.toggle("wrong", Boolean(words));
    }
    this.box.querySelector(".wrong input, .wrong textarea, .wrong select")?.focus();
  }

  async send(v) {
    if (!this.submit || this.submit.getAttribute("aria-disabled")) return;
    this.submit.setAttribute("aria-disabled", "true");
    this.submit.classList.add("busy");
    try {
      await this.page.submitView(v, this.form.state());
    } finally {
      this.submit?.removeAttribute("aria-disabled");
      this.submit?.classList.remove("busy");
    }
  }

  // leave closes the view. That takes a moment, in which another press is nothing more.
  async leave() {
    const v = this.shown;
    if (!v || this.leaving === v.id) return;
    this.leaving = v.id;
    if (!(await this.page.closeView(v))) this.leaving = "";
  }
}

// number gives blocks without an id one, as Slack does when it stores a view.
export function number(list) {
  return (list || []).map((b, n) => (b.block_id ? b : { ...b, block_id: "b" + n }));
}

// ask shows a question with two answers and gives which one was chosen.
export function ask(c) {
  const box = document.getElementById("confirm");
  const words = (t, or) => (typeof t === "string" ? t : t?.text) || or;
  return new Promise((done) => {
    const end = (yes) => {
      box.close();
      done(yes);
    };
    box.oncancel = (ev) => {
      ev.preventDefault();
      end(false);
    };
    const no = h("button", { type: "button", class: "action", on: { click: () => end(false) } }, words(c.deny, "Cancel"));
    swap(box, h("div", { class: "modal-frame" },
      h("header", { class: "modal-head" }, h("h2", { id: "confirm-title" }, words(c.title, "Are you sure?"))),
      h("div", { class: "modal-body" }, h("p", {}, words(c.text, ""))),
      h("footer", { class: "modal-foot" }, no, h("button", { type: "button", class: "action " + (c.style === "danger" ? "danger" : "primary"), on: { click: () => end(true) } }, words(c.confirm, "Yes")))));
    box.setAttribute("aria-labelledby", "confirm-title");
    box.showModal();
    no.focus();
  });
}

// menu opens a menu at a button. items: [label, act, kind, {testid, checked, face, note}].
export function menu(anchor, items, { label, below } = {}) {
  document.querySelector(".menu")?.dispatchEvent(new Event("shut"));
  const radio = items.some((it) => it[3]?.checked !== undefined);
  const list = h("div", { class: "menu", role: "menu", "aria-label": label || anchor.getAttribute("aria-label") });
  const shut = (focus) => {
    list.remove();
    anchor.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    if (focus) anchor.focus({ preventScroll: true });
  };
  const outside = (ev) => { if (!list.contains(ev.target) && !anchor.contains(ev.target)) shut(false); };
  for (const [words, act, kind, more] of items) {
    list.append(h("button", {
      type: "button", class: "menu-item " + (kind || ""), role: radio ? "menuitemradio" : "menuitem", "aria-checked": radio ? String(Boolean(more?.checked)) : null, tabindex: "-1",
      dataset: more?.testid ? { testid: more.testid } : {}, on: { click: () => { shut(true); act(); } },
    }, more?.face, h("bdi", {}, words), more?.note, more?.checked ? icon("check") : null));
  }
  list.addEventListener("shut", () => shut(false));
  list.addEventListener("keydown", (ev) => {
    const all = [...list.children];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 }[ev.key];
    if (to !== undefined) {
      ev.preventDefault();
      all[to].focus();
    } else if (ev.key === "Escape" || ev.key === "Tab") {
      ev.preventDefault();
      ev.stopPropagation();
      shut(true);
    } else if (ev.key.length === 1 && /\S/.test(ev.key)) {
      all.find((x) => x.textContent.toLowerCase().includes(ev.key.toLowerCase()))?.focus();
    }
  });
  document.body.append(list);
  anchor.setAttribute("aria-expanded", "true");
  const r = anchor.getBoundingClientRect();
  const wide = list.offsetWidth;
  const high = list.offsetHeight;
  const left = below ? r.left : r.right - wide;
  list.style.left = Math.max(8, Math.min(left, window.innerWidth - wide - 8)) + "px";
  list.style.top = (r.bottom + high + 8 > window.innerHeight ? Math.max(8, r.top - high - 4) : r.bottom + 4) + "px";
  if (below) list.style.minWidth = r.width + "px";
  document.addEventListener("pointerdown", outside, true);
  (list.querySelector("[aria-checked=true]") || list.firstChild)?.focus({ preventScroll: true });
}
