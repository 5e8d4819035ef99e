// One head, large: its map, its numbers, zoom, windows; pointer and keys move what is chosen.

const mapCanvas = document.getElementById("map");
const mapPlace = document.getElementById("map-place");
let painted = null; // the cells and the mask; only the outlines change with the pointer
let plan = null;

function drawHead() {
  const layer = layerNow();
  document.getElementById("head-title").replaceChildren(
    element("bdi", { className: "path", textContent: layerName(layer) }), ` head ${state.head}`);
  drawNumbersOf(layer);
  if (isTrace()) return;
  paintMap();
  drawBadge(layer);
  drawWindowButtons(layer);
  const [rows, columns] = [state.map.rows, state.map.columns];
  const whole = state.view.q1 - state.view.q0 === rows && state.view.k1 - state.view.k0 === columns;
  document.querySelector("[data-zoom=out]").disabled = whole;
  document.querySelector("[data-zoom=all]").disabled = whole;
  document.getElementById("mask").parentElement.hidden = !layer.mask;
}

// A layer that is a number alone is called a layer.
const layerName = (layer) => (/^\d*$/.test(layer.name) ? (layer.name ? `layer ${layer.name}` : "(the model)") : layer.name);

function paintMap() {
  const { map, view } = state;
  const layer = layerNow();
  const width = mapPlace.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  plan = planMap(width, map, view, layer);
  const height = Math.ceil(plan.top + plan.high + 6);
  mapCanvas.width = Math.round(width * ratio);
  mapCanvas.height = Math.round(height * ratio);
  mapCanvas.style.height = `${height}px`;
  const cells = paintCells(map, view, scaleNow(), plan, ratio);
  const mask = state.mask && map.mask ? paintMask(map, view, plan, ratio) : null;
  painted = { cells, mask, ratio, width, height };
}

function drawMap() {
  const { map, view } = state;
  const layer = layerNow();
  const context = mapCanvas.getContext("2d");
  context.setTransform(painted.ratio, 0, 0, painted.ratio, 0, 0);
  context.clearRect(0, 0, painted.width, painted.height);
  context.drawImage(painted.cells, plan.left, plan.top, plan.wide, plan.high);
  if (painted.mask) context.drawImage(painted.mask, plan.left, plan.top, plan.wide, plan.high);
  context.strokeStyle = style("--line");
  context.lineWidth = 1;
  context.strokeRect(plan.left - 0.5, plan.top - 0.5, plan.wide + 1, plan.high + 1);
  drawAxes(context, map, view, plan, layer);
  if (state.window === null && layer.form === "pooled") drawWindows(context, layer, map, view, plan);
  drawCross(context, view, plan, queryNow(), keyNow());
  sayCell();
}

function drawNumbersOf(layer) {
  const place = document.getElementById("numbers");
  place.replaceChildren();
  if (isTrace()) return;
  for (const [name, words] of [["entropy_nats", "entropy"], ["first token", "on the first key"], ["distance_tokens", "distance"]]) {
    const number = numberOf(layer, name, state.head);
    const said = measuresShown().find((it) => it.name === name);
    place.append(numberBox(words, said.how, number, UNITS[name] || "", evenWords(layer, name)));
  }
  const best = facts.measures
    .map((it) => ({ ...it, value: numberOf(layer, it.name, state.head), chance: layer.chance[it.name][state.head] }))
    .filter((it) => it.value !== null && !["first token", "uniform", "one key"].includes(it.name));
  const strongest = best.sort((a, b) => Math.abs(b.value - b.chance) - Math.abs(a.value - a.chance))[0];
  if (strongest && state.run !== "difference") {
    place.append(numberBox(strongest.name, strongest.how, strongest.value, "", evenWords(layer, strongest.name)));
  }
}

function numberBox(words, how, number, unit, even) {
  return element("div", { title: how }, element("dt", { textContent: words }),
    element("dd", {}, element("strong", { textContent: signed(number) }), number === null ? "" : unit,
      element("div", { className: "even", textContent: even })));
}

const signed = (number) => `${state.run === "difference" && number > 0 ? "+" : ""}${short(number)}`;

// What a number would be if the head looked at all visible keys alike.
function evenWords(layer, name) {
  if (state.run === "difference") return "";
  if (name === "entropy_nats") {
    const share = numberOf(layer, "uniform", state.head);
    return share === null ? "" : `${Math.round(100 * share)} % of even`;
  }
  const chance = layer.chance[name] ? layer.chance[name][state.head] : null;
  return chance === null || chance === undefined ? "" : `even: ${short(chance)}`;
}

function drawBadge(layer) {
  const badge = document.getElementById("badge");
  const [q, k] = layer.grid;
  badge.textContent = state.map.exact ? (state.window === null ? "exact" : "exact window") : `pooled: a cell is ${q} × ${k}`;
  badge.className = `badge ${state.map.exact ? "exact" : "pooled"}`;
  badge.title = state.map.exact
    ? "Every weight of this map is in the page."
    : `The weight that a query of ${q} puts on ${k} keys, on average` +
      (layer.looked < layer.qLen ? `, of ${layer.looked} queries that were looked at, spread over ${layer.qLen}.` : ".");
}

// The buttons of a layer's windows are made once, so that none vanishes under a pointer.
function drawWindowButtons(layer) {
  const place = document.getElementById("windows");
  if (place.dataset.layer !== String(state.layer)) {
    place.dataset.layer = state.layer;
    place.replaceChildren(...(layer.form === "pooled" ? windowButtons(layer) : []));
  }
  for (const button of place.children) {
    button.setAttribute("aria-pressed", String(button.dataset.window === String(state.window)));
  }
}

function windowButtons(layer) {
  const made = (text, number, title) => {
    const button = element("button", { type: "button", textContent: text, title });
    button.dataset.window = number;
    button.addEventListener("click", () => openHead(state.layer, state.head, { window: number }));
    return button;
  };
  return [made("pooled", null, "The whole map, pooled"), ...layer.windows.map((it, number) => {
    const [queries, keys] = [placeWords([it.q[0], it.q[1] - 1]), placeWords([it.k[0], it.k[1] - 1])];
    return made(`exact ${queries}`, number, `Exact: queries ${queries} on keys ${keys}`);
  })];
}

// One line: the query, the key, the weight.
function sayCell() {
  const { map } = state;
  const [query, key] = [queryNow(), keyNow()];
  const layer = layerNow();
  const line = document.getElementById("cell");
  const value = map.at(query, key);
  line.replaceChildren(
    "query ", ...placeAndToken(map.queries(query), layer.queries, "q"), " → key ",
    ...placeAndToken(map.keys(key), layer.keys, "k"), " ",
    element("strong", { textContent: map.hidden(query, key) ? "hidden" : signed(value) }),
    map.hidden(query, key) ? "" : element("span", { className: "dim", textContent: ` ±${short(map.error(value, map.step))}` }));
}

function placeAndToken(place, list, name) {
  const words = element("span", { className: "place", textContent: placeWords(place) });
  if (list < 0 || place[0] !== place[1]) return [words];
  return [words, " ", element("span", { className: `of-${name}` }, tokenElement(tokenAt(list, place[0]), 24))];
}

function cellAt(event) {
  const box = mapCanvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - plan.left) / plan.cellW) + state.view.k0;
  const row = Math.floor((event.clientY - box.top - plan.top) / plan.cellH) + state.view.q0;
  const inside = row >= state.view.q0 && row < state.view.q1 && column >= state.view.k0 && column < state.view.k1;
  return inside ? [row, column] : null;
}

// The exact window in which a cell of a pooled map lies; null where none does.
function windowAt(row, column) {
  const layer = layerNow();
  if (state.window !== null || layer.form !== "pooled") return null;
  const [q0, q1] = state.map.queries(row);
  const [k0, k1] = state.map.keys(column);
  const found = layer.windows.findIndex((it) => q1 >= it.q[0] && q0 < it.q[1] && k1 >= it.k[0] && k0 < it.k[1]);
  return found < 0 ? null : found;
}

function buildMapView() {
  mapCanvas.addEventListener("mousemove", (event) => hover(...(cellAt(event) || [null, null])));
  mapCanvas.addEventListener("mouseleave", () => hover(null, null));
  mapCanvas.addEventListener("click", (event) => {
    const place = cellAt(event);
    if (place) choose(...place);
  });
  mapCanvas.addEventListener("dblclick", (event) => {
    const place = cellAt(event);
    const found = place ? windowAt(...place) : null;
    if (found !== null) openHead(state.layer, state.head, { window: found });
    else if (place) zoom(2);
  });
  mapCanvas.addEventListener("keydown", mapKey);
  document.getElementById("zoom").addEventListener("click", (event) => {
    const asked = event.target.dataset.zoom;
    if (asked) zoom({ in: 2, out: 0.5, all: 0 }[asked]);
  });
  document.getElementById("mask").addEventListener("change", (event) => {
    state.mask = event.target.checked;
    tell("head", "place");
  });
  document.getElementById("own-scale").addEventListener("change", (event) => {
    state.ownScale = event.target.checked;
    tell("head", "place");
  });
}

function mapKey(event) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0] };
  const step = steps[event.key];
  if (step) choose(state.query + step[0], step[1] === 0 && event.shiftKey ? null : state.key + step[1]);
  else if (event.key === "Enter") {
    const found = windowAt(state.query, state.key);
    if (found !== null) openHead(state.layer, state.head, { window: found });
    else document.getElementById("row").focus();
  } else if (event.key === "Escape") {
    if (state.window !== null) openHead(state.layer, state.head, { window: null });
    else tiles[state.layer][state.head].focus();
  } else if (event.key === "+" || event.key === "=") zoom(2);
  else if (event.key === "-") zoom(0.5);
  else if (event.key === "0") zoom(0);
  else return;
  event.preventDefault();
}
