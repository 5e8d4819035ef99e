// Search for heads: by what they do, with the number, or by where they are ("3.5": layer 3, head 5).

const MOST_HEADS = 6; // of each measure
const MOST_MEASURES = 4;
const field = document.getElementById("search");
const found = document.getElementById("found");
let marked = -1;

// Measures whose name or alias begins with what was typed; or else holds it; or else whose description does.
function measuresFor(typed) {
  const words = typed.toLowerCase().trim();
  const score = (it) => {
    const names = [it.name, ...(it.aliases || [])].map((name) => name.toLowerCase());
    if (names.some((name) => name.startsWith(words))) return 0;
    if (names.some((name) => name.includes(words))) return 1;
    return words.length > 2 && it.how.toLowerCase().includes(words) ? 2 : 3;
  };
  const scored = facts.measures.map((it) => ({ ...it, score: score(it) }));
  const best = Math.min(2, ...scored.map((it) => it.score));
  return scored
    .filter((it) => it.score <= best)
    .slice(0, words ? MOST_MEASURES : facts.measures.length);
}

// The heads with the largest numbers, or those that are worst.
function bestHeads(name) {
  const heads = facts.layers.flatMap((layer, at) => Array.from({ length: layer.heads }, (_, head) => ({
    layer: at, head, value: numberOf(layer, name, head, "first"), chance: layer.chance ? layer.chance[name][head] : null,
  })));
  const low = facts.measures.some((it) => it.name === name && it.worse === "low"); // of a watch: the worst first
  return heads.filter((it) => it.value !== null).sort((a, b) => (low ? a.value - b.value : b.value - a.value));
}

function headFor(typed) {
  const match = /^\s*(?:layer\s*|l)?(\d+)\s*(?:[.,:/ ]|head|h)+\s*(\d+)\s*$/i.exec(typed);
  if (!match) return null;
  const [layer, head] = [Number(match[1]), Number(match[2])];
  return layer < facts.layers.length && head < facts.layers[layer].heads ? { layer, head } : null;
}

function drawFound() {
  const typed = field.value;
  found.replaceChildren();
  marked = -1;
  const place = headFor(typed);
  if (place) found.append(choice(place, `layer ${place.layer}, head ${place.head}`, ""));
  for (const measure of place ? [] : measuresFor(typed)) {
    found.append(element("p", { className: "measure" }, element("b", { textContent: wordsOf(measure.name) }),
      element("span", { className: "dim", textContent: ` ${measure.how}` })));
    const best = bestHeads(measure.name);
    if (!best.length) found.append(element("p", { className: "dim none", textContent: "says nothing about this input" }));
    for (const it of best.slice(0, typed.trim() ? MOST_HEADS : 2)) {
      const more = it.chance === null ? "" : `even weights: ${short(it.chance)}`;
      found.append(choice(it, `${shortName(it.layer)} · head ${it.head}`, short(it.value), more));
    }
  }
  if (!found.children.length) found.append(element("p", { className: "dim none", textContent: "No such measure. Try: previous token, first token, self, induction, uniform, or 3.5 for layer 3, head 5." }));
  show(true);
}

const shortName = (layer) => `layer ${cut(shortNames(facts.layers.map((it) => it.name)).names[layer], 30)}`;

function choice(place, words, value, more = "") {
  const item = element("div", { className: "choice" }, element("span", { textContent: words }),
    element("span", { className: "value", textContent: value }), element("span", { className: "dim", textContent: more }));
  item.setAttribute("role", "option");
  item.id = `found-${found.querySelectorAll(".choice").length}`;
  item.dataset.place = `${place.layer},${place.head}`;
  return item;
}

function show(open) {
  found.hidden = !open;
  field.setAttribute("aria-expanded", String(open));
  if (!open) field.removeAttribute("aria-activedescendant");
}

function mark(step) {
  const choices = [...found.querySelectorAll(".choice")];
  if (!choices.length) return;
  marked = (marked + step + choices.length) % choices.length;
  choices.forEach((it, at) => it.setAttribute("aria-selected", String(at === marked)));
  choices[marked].scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", choices[marked].id);
}

function take(item) {
  const [layer, head] = item.dataset.place.split(",").map(Number);
  show(false);
  openHead(layer, head).then(() => tiles[layer][head].focus());
}

function buildSearch() {
  field.addEventListener("input", drawFound);
  field.addEventListener("focus", drawFound);
  field.addEventListener("blur", () => show(false));
  found.addEventListener("mousedown", (event) => {
    const item = event.target.closest(".choice");
    event.preventDefault(); // the field keeps the focus
    if (item) take(item);
  });
  field.addEventListener("keydown", (event) => {
    const choices = found.querySelectorAll(".choice");
    if (event.key === "ArrowDown") mark(1);
    else if (event.key === "ArrowUp") mark(-1);
    else if (event.key === "Enter" && choices.length) take(choices[Math.max(0, marked)]);
    else if (event.key === "Escape") {
      show(false);
      tiles[state.layer][state.head].focus();
    } else return;
    event.preventDefault();
  });
}
