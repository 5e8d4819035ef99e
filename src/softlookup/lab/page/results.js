// What came of a run: predictions before and after, numbers, the verdict, and the list of results so far.

import { byId, figure, make, token, weight } from "./elements.js";

const MOST_KEPT = 40;

const percent = (p) => (p >= 0.0995 ? `${(100 * p).toFixed(0)} %` : p >= 0.000995 ? `${(100 * p).toFixed(1)} %` : p > 0 ? "< 0.1 %" : "0 %");

function bar(p, kind) {
  const inner = make("i");
  inner.style.width = `${100 * p}%`;
  return make("span", { class: `bar ${kind}` }, inner);
}

/** Show the outcome of a run; found: what the lab answered. */
export function showOutcome(element, found, state) {
  if (found.kind === "unchanged") {
    element.replaceChildren(...unchanged(found, state));
  } else if (found.kind === "states") {
    element.replaceChildren(...states(found, state));
  } else {
    element.replaceChildren(...logits(found));
  }
}

function unchanged(found, state) {
  if (found.outcome === "states") return [make("p", { class: "small" }, state.about.outcomes.states + ".")];
  const rows = found.top.map((it) => make("tr", {}, make("td", {}, token(it.token)), make("td", {}, make("span", { class: "number" }, percent(it.p)), bar(it.p, ""))));
  return [table(found.outcome === "classes" ? "Classes" : "Predicted next", ["", "unchanged"], rows)];
}

function logits(found) {
  const all = new Map();
  for (const it of found.before) all.set(it.id, { token: it.token, before: it.p, after: it.other });
  for (const it of found.after) all.set(it.id, { token: it.token, before: it.other, after: it.p });
  const rows = [...all.values()]
    .sort((a, b) => Math.max(b.before, b.after) - Math.max(a.before, a.after))
    .slice(0, 8)
    .map((it) =>
      make(
        "tr", {}, make("td", {}, token(it.token)),
        make("td", {}, make("span", { class: "number" }, percent(it.before)), bar(it.before, "")),
        make("td", {}, make("span", { class: "number" }, percent(it.after)), bar(it.after, "after")),
      ),
    );
  const [before, after] = found.logit_difference;
  const numbers = [
    ["KL divergence from the unchanged run", `${figure(found.kl_nats)} nats`],
    [[token(found.pair[0]), " less ", token(found.pair[1]), ", logits"], `${figure(before, 2)} → ${figure(after, 2)}`],
  ];
  return [table("Predictions", ["", "unchanged", "changed"], rows), list(numbers), ...same(found)];
}

function states(found, state) {
  const top = Math.max(...found.by_token, 1e-9);
  const chips = found.by_token.map((value, i) => {
    const chip = make("span", { title: figure(value) }, token(state.reading.tokens.text[i] ?? ""));
    chip.style.background = `color-mix(in srgb, var(--mark) ${Math.round((70 * value) / top)}%, transparent)`;
    return chip;
  });
  const numbers = [
    ["cosine distance of the pooled hidden states", figure(found.cosine_distance, 5)],
    ["relative change of the pooled hidden states", figure(found.pooled_change)],
    ["largest relative change of one token", figure(top)],
  ];
  return [
    make("p", { class: "small faint" }, state.about.outcomes.states + "."), list(numbers),
    make("p", { class: "small faint" }, "How far each token's final state moved:"), make("div", { class: "by-token" }, ...chips), ...same(found),
  ];
}

function same(found) {
  return found.identical ? [make("p", { class: "small" }, "Bit for bit the unchanged run.")] : [];
}

function table(caption, heads, rows) {
  return make(
    "table", { class: "predictions" }, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...heads.map((it) => make("th", { scope: "col" }, it)))), make("tbody", {}, ...rows),
  );
}

function list(pairs) {
  return make("dl", { class: "numbers" }, ...pairs.flatMap(([name, value]) => [
    make("dt", {}, ...(Array.isArray(name) ? name : [name])), make("dd", { class: "number" }, value),
  ]));
}

const WORD_CLASS = { faithful: "good", misleading: "bad" };

/** Show the faithfulness verdict; keys: tokens of the keys. */
export function showVerdict(element, found, keys) {
  element.replaceChildren(
    make("p", {}, make("span", { class: `word ${WORD_CLASS[found.word] ?? "doubt"}` }, found.word)),
    make("p", {}, `${found.words[0].toUpperCase()}${found.words.slice(1)}.`),
    make("p", { class: "small faint" }, `Measured: ${found.metric}.`),
    keyTable(found, keys),
    variantTable(found),
    list(found.numbers),
  );
}

/** Weight of each key beside what removing it does. */
function keyTable(found, keys) {
  const most = Math.max(...found.keys.flatMap((it) => [it.hidden, it.silenced]), 1e-12);
  const cell = (value, share, kind) => make("td", {}, make("span", { class: "number" }, weight(value)), bar(Math.min(1, share), kind));
  const rows = found.keys.map((it) => {
    const names = it.keys.map((key) => [`${key} `, token(keys.text[key] ?? "")]);
    const name = make("td", {}, ...names.flatMap((one, i) => (i ? [", ", ...one] : one)));
    return make(
      "tr", {}, name, cell(it.weight, it.weight, ""), cell(it.hidden, it.hidden / most, "after"),
      cell(it.silenced, it.silenced / most, "after"),
    );
  });
  const drawn = table("Each key: its weight, and what its removal does", ["key", "weight", "hidden", "silenced"], rows);
  const note = "Hidden: before the softmax, so that the others share its weight. Silenced: the others keep theirs.";
  const left = found.left_out ? ` ${found.left_out} light keys were left out.` : "";
  return make("details", { open: found.keys.length <= 16 }, make("summary", {}, "Key by key"), drawn, make("p", { class: "small faint" }, note + left));
}

function variantTable(found) {
  const heads = ["rank correlation with the effect, by", "hidden", "silenced"];
  const rows = found.variants.map(([name, hidden, silenced, why]) =>
    make(
      "tr", {}, make("th", { scope: "row", title: why }, name),
      ...[hidden, silenced].map((it) => make("td", { class: "number" }, ...it.map((part) => make("span", {}, part)))),
    ),
  );
  return make("table", { class: "variants" }, make("thead", {}, make("tr", {}, ...heads.map((it) => make("th", { scope: "col" }, it)))), make("tbody", {}, ...rows));
}

/** The results of this visit, each with its Python. */
export class Results {
  constructor() {
    this.number = 0;
    byId("code-close").onclick = () => byId("code").close();
    byId("code-copy").onclick = () => navigator.clipboard.writeText(this.python);
    byId("code-save").onclick = () => this.save();
  }

  add(words, python) {
    this.number += 1;
    const number = this.number;
    const item = make(
      "li", { value: number }, make("span", { class: "what" }, words),
      make("button", { type: "button", onclick: () => this.show(number, python) }, "Save as Python"),
    );
    byId("no-results").hidden = true;
    byId("results").prepend(item);
    while (byId("results").children.length > MOST_KEPT) byId("results").lastChild.remove();
  }

  show(number, python) {
    Object.assign(this, { shown: number, python });
    byId("code-text").textContent = python;
    byId("code").showModal();
  }

  save() {
    const address = URL.createObjectURL(new Blob([this.python], { type: "text/x-python" }));
    make("a", { href: address, download: `lab_result_${this.shown}.py` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }
}
