// Layers x heads: one small map each, in which arrow keys move; and the search for heads by a number.

import { byId, figure, make } from "./elements.js";
import { bytes, drawSmall } from "./maps.js";

const MOST_FOUND = 6;

/** The grid of small maps. chosen: told (place of the layer, head). */
export class HeadGrid {
  constructor(element, colours, chosen) {
    Object.assign(this, { element, colours, chosen, buttons: [], places: [] });
    element.addEventListener("keydown", (event) => this.move(event));
    byId("measure").addEventListener("change", () => this.find());
  }

  show(facts) {
    this.facts = facts;
    const most = Math.max(...facts.layers.map((it) => it.heads));
    this.element.style.gridTemplateColumns = `1.6rem repeat(${most}, minmax(18px, 2.75rem))`;
    const names = [...Array(most).keys()].map((it) => make("span", { class: "head-name" }, String(it)));
    const rows = facts.layers.flatMap((layer, place) => this.row(layer, place, most));
    this.buttons = rows.filter((it) => it.localName === "button");
    this.element.replaceChildren(make("span"), ...names, ...rows);
    const chosen = byId("measure").value;
    byId("measure").replaceChildren(...facts.measures.map((it) => make("option", { value: it.name }, it.name)));
    if (chosen) byId("measure").value = chosen;
    this.find();
    this.changed(this.places);
  }

  row(layer, place, most) {
    const raw = bytes(layer.codes);
    const name = make("span", { class: "layer-name", title: layer.layer }, String(place));
    const cells = [...Array(layer.heads).keys()].map((head) => {
      const canvas = make("canvas");
      drawSmall(canvas, layer, raw, head, this.colours);
      return make(
        "button",
        {
          type: "button", tabIndex: -1, "aria-pressed": "false", "data-place": place, "data-head": head,
          "aria-label": `${layer.layer}, head ${head}`, title: this.words(layer, head),
          onclick: () => this.chosen(place, head),
        },
        canvas,
      );
    });
    const gaps = [...Array(most - layer.heads)].map(() => make("span"));
    return [name, ...cells, ...gaps];
  }

  words(layer, head) {
    const numbers = this.facts.measures
      .map((it, i) => [it.name, layer.measures[i][head]])
      .filter(([, value]) => value !== null)
      .map(([name, value]) => `${name} ${figure(value, 2)}`);
    return `${layer.layer} (${layer.kind}), head ${head}\n${numbers.join("\n")}`;
  }

  mark(place, head) {
    for (const it of this.buttons) {
      const here = Number(it.dataset.place) === place && Number(it.dataset.head) === head;
      it.setAttribute("aria-pressed", String(here));
      it.tabIndex = here ? 0 : -1;
      if (here) this.scrollTo(it);
    }
  }

  /** Scroll the grid, and not the page, until a head can be seen. */
  scrollTo(button) {
    const [inner, outer] = [button.getBoundingClientRect(), this.element.getBoundingClientRect()];
    const names = 20; // pixels at the top that the numbers of heads cover
    if (inner.top < outer.top + names) this.element.scrollTop -= outer.top + names - inner.top;
    else if (inner.bottom > outer.bottom) this.element.scrollTop += inner.bottom - outer.bottom + 4;
  }

  /** Mark heads that the experiment changes. places: [{layer, head or null}] */
  changed(places) {
    this.places = places;
    for (const it of this.buttons) {
      const layer = this.facts.layers[Number(it.dataset.place)].layer;
      const head = Number(it.dataset.head);
      const changed = places.some((at) => at.layer === layer && (at.head === null || at.head === head));
      it.classList.toggle("changed", changed);
    }
  }

  move(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || event.target.localName !== "button") return;
    event.preventDefault();
    const place = Number(event.target.dataset.place) + step[0];
    const head = Number(event.target.dataset.head) + step[1];
    const next = this.buttons.find((it) => Number(it.dataset.place) === place && Number(it.dataset.head) === head);
    if (next) {
      next.focus();
      this.chosen(place, head);
    }
  }

  /** List the heads that have most of what is searched for. */
  find() {
    const number = byId("measure").selectedIndex;
    const measure = this.facts.measures[number];
    byId("measure-how").textContent = measure.how;
    const heads = this.facts.layers.flatMap((layer, place) =>
      layer.measures[number].map((value, head) => ({ place, head, value })),
    );
    const found = heads.filter((it) => it.value !== null).sort((a, b) => b.value - a.value);
    const items = found.slice(0, MOST_FOUND).map((it) =>
      make(
        "li", {},
        make("button", { type: "button", onclick: () => this.chosen(it.place, it.head) }, `${it.place}.${it.head}  ${figure(it.value, 2)}`),
      ),
    );
    byId("found").replaceChildren(...(items.length ? items : [make("li", { class: "faint small" }, "this text says nothing of it")]));
  }
}
