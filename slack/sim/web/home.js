// The Home tab of an app, as it last published it for the person.

import { h, swap } from "./dom.js";
import { blocks } from "./blocks.js";
import { Form, number } from "./modal.js";

export class Home {
  constructor(page) {
    this.page = page;
    this.element = h("div", { class: "home", dataset: { testid: "home" }, role: "tabpanel", "aria-label": "Home", tabindex: "0", hidden: true });
  }

  // draw shows the tab of the app whose DM it is; null hides it.
  draw(c) {
    this.element.hidden = !c;
    if (!c) {
      this.key = "";
      return;
    }
    const { store, me } = this.page;
    const v = [...store.views.values()].find((x) => x.kind === "home" && x.person === me && x.app === c.app);
    const key = [me, c.app, v?.id, v?.hash].join();
    if (key === this.key) return;
    this.key = key;
    const app = store.apps.get(c.app);
    if (!v) {
      swap(this.element, h("div", { class: "home-inner" }, h("div", { class: "empty" }, `${app?.name || "The app"} has not published a Home for ${this.page.names.user(me)} yet.`)));
      return;
    }
    const form = new Form(this.page, v);
    swap(this.element, h("div", { class: "home-inner" }, blocks(number(v.body?.blocks), form.at)));
  }
}
