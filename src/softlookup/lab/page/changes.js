// The list of changes that the next run is made with.

import { byId, cutToken, make } from "./elements.js";

/** What can be done to a head, by what the page calls it. */
const KINDS = [
  ["ablate it: zeros", { kind: "ablate", how: "zero" }],
  ["ablate it: its mean in a text", { kind: "ablate", how: "mean", from: null }],
  ["ablate it: its output in another text", { kind: "ablate", how: "resample", from: null, earlier: true }],
  ["freeze its map from another text", { kind: "freeze_map", from: null, earlier: true }],
  ["replace its map: uniform", { kind: "replace_map", by: "uniform" }],
  ["replace its map: previous token", { kind: "replace_map", by: "previous token" }],
  ["replace its map: permuted", { kind: "replace_map", by: "permuted" }],
  ["scale its logits", { kind: "scale_logits", factor: 0.5 }],
  ["change a token of the text", { kind: "change_token", text: "" }],
];

const WORDS = {
  remove_source: "remove key",
  freeze_map: "freeze the map",
  ablate: "ablate",
  scale_logits: "scale the logits",
};

export class ChangeList {
  constructor(changed) {
    this.list = [];
    this.here = null;
    this.changed = () => {
      this.show();
      changed();
    };
    byId("add-kind").append(...KINDS.map(([words], i) => make("option", { value: i }, words)));
    byId("add").onclick = () => this.add();
  }

  /** Keep to a text that was read anew: keys that it has no longer, and texts that are gone, are dropped. */
  fit(reading, earlier) {
    this.reading = reading;
    this.earlier = earlier;
    const known = new Set([...earlier, reading].map((it) => it.reading));
    const layers = new Map(reading.layers.map((it) => [it.layer, it]));
    this.list = this.list.filter((it) => {
      if (it.kind === "change_token") return it.position < this.text().length;
      const layer = layers.get(it.layer);
      const fits = !("key" in it) || (layer && it.key < layer.size[1] && it.query < layer.size[0]);
      return fits && (it.layer === "*" || layer) && (it.from === undefined || known.has(it.from));
    });
    for (const option of byId("add-kind").options) {
      option.disabled = Boolean(KINDS[option.value][1].earlier) && !earlier.length;
    }
    this.show();
  }

  add() {
    const { earlier: _, ...fields } = KINDS[byId("add-kind").value][1];
    if (fields.from === null) fields.from = (this.earlier.at(-1) ?? this.reading).reading;
    if (fields.kind === "change_token") {
      this.list.push({ ...fields, position: Math.min(this.here.query, this.text().length - 1) });
      this.show();
      byId("changes").lastChild.querySelector("input").focus();
    } else {
      this.list.push({ ...fields, layer: this.here.layer, head: this.here.head, scope: "head" });
      this.changed();
    }
  }

  /** The tokens that can be changed: those of what an encoder reads, where there is one. */
  text() {
    return (this.reading.source ?? this.reading.tokens).text;
  }

  /** Remove a key from the row of a query, or take the change back. */
  toggleKey(key, query) {
    const { layer, head } = this.here;
    const there = this.list.findIndex((it) => it.key === key && this.removes(it, layer, head, query));
    if (there >= 0) this.list.splice(there, 1);
    else this.list.push({ kind: "remove_source", key, query, layer, head, scope: "row" });
    this.changed();
  }

  removes(it, layer, head, query) {
    if (it.kind !== "remove_source") return false;
    const { scope } = it;
    return scope === "all" || (it.layer === layer && (scope === "layer" || (it.head === head && (scope === "head" || it.query === query))));
  }

  removedKeys(layer, head, query) {
    return new Set(this.list.filter((it) => this.removes(it, layer, head, query)).map((it) => it.key));
  }

  /** Which heads are changed, for the grid, where not all are. */
  places() {
    const some = this.list.filter((it) => it.kind !== "change_token" && it.scope !== "all");
    return some.map((it) => ({ layer: it.layer, head: it.scope === "layer" ? null : it.head }));
  }

  /** What the lab is asked for. */
  asked() {
    const said = this.list.filter((it) => it.kind !== "change_token" || it.text);
    return said.map(({ scope, ...it }) => {
      if (it.kind === "change_token") return it;
      const fields = { ...it, layer: scope === "all" ? "*" : it.layer };
      if (scope === "layer" || scope === "all") fields.head = null;
      if (scope !== "row") delete fields.query;
      return fields;
    });
  }

  show() {
    byId("changes").replaceChildren(...this.list.map((it, i) => this.item(it, i)));
  }

  item(it, i) {
    const drop = make(
      "button",
      { type: "button", class: "drop", "aria-label": "Take this change back", title: "Take it back", onclick: () => this.drop(i) },
      "×",
    );
    if (it.kind === "change_token") return make("li", {}, drop, make("div", { class: "buttons" }, ...this.token(it)));
    const parts = [this.words(it), this.scopes(it)];
    if (it.from !== undefined) parts.push(this.texts(it));
    if (it.kind === "scale_logits") parts.push(this.factor(it));
    return make("li", {}, drop, make("div", { class: "buttons" }, ...parts));
  }

  words(it) {
    const what = make("span", { class: "what" });
    if (it.kind === "remove_source") {
      const layer = this.reading.layers.find((at) => at.layer === it.layer);
      const side = layer.keys_are === "source" ? this.reading.source : this.reading.tokens;
      what.append(`remove key ${it.key} `, make("bdi", {}, cutToken(side.text[it.key], 20)));
    } else if (it.kind === "replace_map") {
      what.append(`${it.by} map`);
    } else {
      what.append(WORDS[it.kind] + (it.how ? `: ${it.how}` : ""));
    }
    return what;
  }

  /** Which token of the text becomes which other one. */
  token(it) {
    const position = make(
      "select", { "aria-label": "Which token" },
      ...this.text().map((text, i) => make("option", { value: i }, `${i} ${cutToken(text, 16)}`)),
    );
    position.value = it.position;
    position.onchange = () => {
      it.position = Number(position.value);
      this.changed();
    };
    const text = make("input", { type: "text", value: it.text, maxLength: 100, size: 10, dir: "auto", "aria-label": "Becomes" });
    text.onchange = () => {
      it.text = text.value;
      this.changed();
    };
    return [make("span", { class: "what" }, "token"), position, "becomes", text];
  }

  scopes(it) {
    const row = it.kind === "remove_source" ? [["row", `${it.layer}, head ${it.head}, query ${it.query}`]] : [];
    const all = [...row, ["head", `${it.layer}, head ${it.head}`], ["layer", `${it.layer}, all heads`], ["all", "all layers and heads"]];
    const select = make(
      "select",
      {
        "aria-label": "Where",
        onchange: () => {
          it.scope = select.value;
          this.changed();
        },
      },
      ...all.map(([value, words]) => make("option", { value }, words)),
    );
    select.value = it.scope;
    return select;
  }

  texts(it) {
    const select = make(
      "select",
      {
        "aria-label": "From which text",
        onchange: () => {
          it.from = Number(select.value);
          this.changed();
        },
      },
      ...[...this.earlier, this.reading].map((at) =>
        make("option", { value: at.reading }, `from ${at === this.reading ? "this text" : JSON.stringify(cutToken(at.text, 30))}`),
      ),
    );
    select.value = it.from;
    return select;
  }

  factor(it) {
    const field = make("input", { type: "number", step: "0.1", min: "-100", max: "100", value: it.factor, "aria-label": "Factor" });
    field.onchange = () => {
      it.factor = Number(field.value);
      this.changed();
    };
    return field;
  }

  drop(i) {
    this.list.splice(i, 1);
    this.changed();
  }
}
