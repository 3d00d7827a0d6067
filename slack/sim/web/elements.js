// Block Kit's interactive elements.

import { h, icon } from "./dom.js";

const words = (t) => (typeof t === "string" ? t : t?.text || "");

// element gives the element of one interactive part of a block.
export function element(e, block, at) {
  const make = Object.hasOwn(kinds, e.type) ? kinds[e.type] : other;
  const made = make(e, block, at);
  if (e.action_id) made.dataset.action = e.action_id;
  return made;
}

const kinds = {
  button, feedback_buttons: feedback, icon_button: iconButton, static_select: select, external_select: other,
  multi_static_select: select, users_select: people, multi_users_select: people, conversations_select: rooms, channels_select: rooms,
  multi_conversations_select: rooms, multi_channels_select: rooms, radio_buttons: choices, checkboxes: choices, overflow,
  plain_text_input: input, number_input: input, email_text_input: input, url_text_input: input, datepicker: input, timepicker: input, datetimepicker: input,
  rich_text_input: input, image: (e) => h("span", { class: "chip" }, icon("image"), e.alt_text || "image"), workflow_button: button,
};

function other(e) {
  return h("span", { class: "chip" }, `“${e.type || "element"}” cannot be used here`);
}

// press lets an element be used: it is shown as busy until the click is accepted, and asks first where it must. What it
// gives says whether the click was accepted.
function press(e, block, at, value) {
  return async (ev) => {
    if (!at.act) return false;
    const b = ev.currentTarget;
    if (b.getAttribute("aria-disabled") === "true") return false;
    if (e.confirm && !(await at.confirm(e.confirm))) return false;
    b.setAttribute("aria-disabled", "true");
    b.classList.add("busy");
    try {
      return Boolean(await at.act(e, block, value ?? e.value ?? ""));
    } finally {
      b.removeAttribute("aria-disabled");
      b.classList.remove("busy");
    }
  };
}

function button(e, block, at) {
  const style = e.style === "primary" || e.style === "danger" ? " " + e.style : "";
  return h("button", {
    type: "button", class: "action" + style, "aria-label": e.accessibility_label, dataset: { testid: "button-" + (e.action_id || "") },
    title: e.url ? "Leads to " + e.url : null, disabled: !at.act, on: { click: press(e, block, at) },
  }, words(e.text));
}

function feedback(e, block, at) {
  const one = (b, sign, fallback) => {
    const made = h("button", {
      type: "button", class: "thumb", "aria-label": b?.accessibility_label || words(b?.text) || fallback, title: words(b?.text) || fallback,
      "aria-pressed": "false", dataset: { testid: "button-" + (e.action_id || ""), value: b?.value || "" }, disabled: !at.act,
      on: { click: async (ev) => {
        const me = ev.currentTarget; // read before the wait: it is gone after
        if (!(await press(e, block, at, b?.value)(ev))) return;
        for (const x of me.parentElement.children) x.setAttribute("aria-pressed", String(x === me));
        at.rated?.(e, b?.value);
      } },
    }, icon(sign));
    if (at.rating?.(e) === b?.value && b?.value) made.setAttribute("aria-pressed", "true");
    return made;
  };
  return h("span", { class: "thumbs" }, one(e.positive_button, "up", "Good answer"), one(e.negative_button, "thumbdown", "Bad answer"));
}

function iconButton(e, block, at) {
  if (e.visible_to_user_ids?.length && !e.visible_to_user_ids.includes(at.names.me)) return h("span", { hidden: true });
  return h("button", {
    type: "button", class: "thumb", "aria-label": e.accessibility_label || words(e.text), title: words(e.text),
    dataset: { testid: "button-" + (e.action_id || "") }, disabled: !at.act, on: { click: press(e, block, at) },
  }, icon(e.icon === "trash" ? "trash" : "more"));
}

// used reports a choice at once where the block says so, and lets a form read it.
function bind(node, e, block, at, read) {
  at.field?.(block.block_id, e.action_id, e.type, read);
  if (block.type !== "input" || block.dispatch_action) node.addEventListener("change", () => at.act?.(e, block, read()));
  return node;
}

function options(e) {
  return [...(e.options || []), ...(e.option_groups || []).flatMap((g) => g.options || [])];
}

function select(e, block, at) {
  const multi = e.type.startsWith("multi_");
  const all = options(e);
  const first = multi ? (e.initial_options || []).map((o) => o.value) : [e.initial_option?.value];
  const node = h("select", { class: "select", multiple: multi, "aria-label": at.label || words(e.placeholder) || "Choose", disabled: !at.act && !at.field },
    multi ? null : h("option", { value: "" }, words(e.placeholder) || "Choose…"),
    all.map((o) => h("option", { value: o.value, selected: first.includes(o.value) }, words(o.text))));
  return bind(node, e, block, at, () => {
    const picked = [...node.selectedOptions].map((o) => all.find((x) => x.value === o.value)).filter(Boolean);
    return multi ? { selected_options: picked } : { selected_option: picked[0] || null };
  });
}

function pickIds(e, block, at, list, one, many) {
  const multi = e.type.startsWith("multi_");
  const node = h("select", { class: "select", multiple: multi, "aria-label": at.label || words(e.placeholder) || "Choose", disabled: !at.act && !at.field },
    multi ? null : h("option", { value: "" }, words(e.placeholder) || "Choose…"), list.map(([id, name]) => h("option", { value: id }, name)));
  return bind(node, e, block, at, () => {
    const ids = [...node.selectedOptions].map((o) => o.value).filter(Boolean);
    return multi ? { [many]: ids } : { [one]: ids[0] || null };
  });
}

function people(e, block, at) {
  return pickIds(e, block, at, at.names.people(), "selected_user", "selected_users");
}

function rooms(e, block, at) {
  const word = e.type.includes("channels") ? "channel" : "conversation";
  return pickIds(e, block, at, at.names.rooms(), "selected_" + word, "selected_" + word + "s");
}

function choices(e, block, at) {
  const radio = e.type === "radio_buttons";
  const name = "c" + Math.random().toString(36).slice(2);
  const first = radio ? [e.initial_option?.value] : (e.initial_options || []).map((o) => o.value);
  const boxes = (e.options || []).map((o) => [o, h("input", { type: radio ? "radio" : "checkbox", name, value: o.value, checked: first.includes(o.value), disabled: !at.act && !at.field })]);
  const node = h("span", { class: "choices", role: radio ? "radiogroup" : "group", "aria-label": at.label || "Choose" },
    boxes.map(([o, box]) => h("label", { class: "choice" }, box, h("span", {}, words(o.text), o.description ? h("small", {}, words(o.description)) : null))));
  return bind(node, e, block, at, () => {
    const picked = boxes.filter(([, box]) => box.checked).map(([o]) => o);
    return radio ? { selected_option: picked[0] || null } : { selected_options: picked };
  });
}

function overflow(e, block, at) {
  const node = h("select", { class: "select", "aria-label": "More actions", disabled: !at.act }, h("option", { value: "" }, "More…"),
    (e.options || []).map((o) => h("option", { value: o.value }, words(o.text))));
  node.addEventListener("change", () => {
    const o = (e.options || []).find((x) => x.value === node.value);
    node.value = "";
    if (o) at.act?.(e, block, { selected_option: o });
  });
  return node;
}

const types = { number_input: "number", email_text_input: "email", url_text_input: "url", datepicker: "date", timepicker: "time", datetimepicker: "datetime-local" };

function input(e, block, at) {
  const many = e.multiline || e.type === "rich_text_input";
  const start = e.initial_value || e.initial_date || e.initial_time || "";
  const node = h(many ? "textarea" : "input", {
    class: "field-input", type: many ? null : types[e.type] || "text", rows: many ? 4 : null, placeholder: words(e.placeholder), value: typeof start === "string" ? start : "",
    maxlength: e.max_length, minlength: e.min_length, "aria-label": at.label || words(e.placeholder) || "Text", dir: "auto", disabled: !at.act && !at.field,
    required: block.type === "input" && !block.optional,
  });
  return bind(node, e, block, at, () => state(e, node.value));
}

function state(e, value) {
  switch (e.type) {
    case "datepicker": return { selected_date: value || null };
    case "timepicker": return { selected_time: value || null };
    case "datetimepicker": return { selected_date_time: value ? Math.round(new Date(value).getTime() / 1000) : null };
    case "rich_text_input":
      return { rich_text_value: value ? { type: "rich_text", elements: [{ type: "rich_text_section", elements: [{ type: "text", text: value }] }] } : null };
    default: return { value: value === "" ? null : value };
  }
}
