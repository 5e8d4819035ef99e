// Layers x heads: a small map of each head, or one of its numbers as a colour.

const grid = document.getElementById("grid");
const tiles = []; // [layer][head]
const NAMES = { entropy_nats: "entropy", distance_tokens: "distance" };
const UNITS = { entropy_nats: " nats", distance_tokens: " tokens" };

function buildOverview() {
  const { pattern, names } = shortNames(facts.layers.map((it) => it.name));
  const heads = Math.max(...facts.layers.map((it) => it.heads));
  grid.style.setProperty("--heads", heads);
  grid.setAttribute("aria-rowcount", facts.layers.length + 1);
  grid.setAttribute("aria-colcount", heads + 1);
  document.getElementById("overview-title").title = pattern;
  const top = element("div", { className: "tile-row top-row" });
  top.setAttribute("role", "row");
  const corner = element("span", { className: "corner" });
  corner.setAttribute("role", "columnheader");
  corner.setAttribute("aria-label", "layer");
  top.append(corner);
  for (let head = 0; head < heads; head++) {
    const name = element("span", { className: "column", textContent: head % labelStep(heads) ? "" : head });
    name.setAttribute("role", "columnheader");
    name.setAttribute("aria-label", `head ${head}`);
    top.append(name);
  }
  grid.append(top);
  facts.layers.forEach((layer, at) => grid.append(tileRow(layer, at, names[at])));
  tiles[0][0].tabIndex = 0;
  document.getElementById("grid-place").dataset.pattern = pattern;
  grid.addEventListener("mouseover", (event) => sayTile(tileOf(event.target)));
  grid.addEventListener("mouseleave", () => sayTile(null));
  grid.addEventListener("focusin", (event) => sayTile(tileOf(event.target)));
  grid.addEventListener("click", (event) => {
    const place = tileOf(event.target);
    if (place) openHead(...place);
  });
  grid.addEventListener("keydown", overviewKey);
}

const labelStep = (heads) => (heads > 16 ? 4 : 1);

function tileRow(layer, at, name) {
  const row = element("div", { className: "tile-row" });
  row.setAttribute("role", "row");
  const label = element("span", { className: "layer", textContent: cut(name, 22), title: layer.name });
  label.setAttribute("role", "rowheader");
  row.append(label);
  tiles.push([]);
  for (let head = 0; head < layer.heads; head++) {
    const tile = element("button", { className: "tile", type: "button", tabIndex: -1 });
    tile.dataset.place = `${at},${head}`;
    tile.setAttribute("role", "gridcell");
    tile.setAttribute("aria-label", tileWords(at, head));
    tiles[at].push(tile);
    row.append(tile);
  }
  return row;
}

function tileOf(target) {
  const tile = target && target.closest ? target.closest(".tile") : null;
  return tile ? tile.dataset.place.split(",").map(Number) : null;
}

function numberOf(layer, name, head, run = state.run) {
  const mine = layer.numbers[name] ? layer.numbers[name][head] : null;
  if (run === "first" || !layer.otherNumbers) return mine;
  const other = layer.otherNumbers[name][head];
  if (run === "second") return other;
  return mine === null || other === null ? null : other - mine;
}

// The three numbers that stand beside every head.
function beside(layer, head) {
  return ["entropy_nats", "first token", "distance_tokens"]
    .map((name) => [name, numberOf(layer, name, head)])
    .filter(([, number]) => number !== null)
    .map(([name, number]) => `${NAMES[name] || name} ${short(number)}${UNITS[name] || ""}`);
}

function tileWords(at, head) {
  const layer = facts.layers[at];
  const numbers = isTrace() ? [`${wordsOf(state.shown)} ${short(numberOf(layer, state.shown, head))}`] : beside(layer, head);
  if (!isTrace() && state.shown !== "maps" && !["entropy_nats", "distance_tokens", "first token"].includes(state.shown)) {
    numbers.push(`${wordsOf(state.shown)} ${short(numberOf(layer, state.shown, head))}`);
  }
  return [`${cut(layerName(layer), 40)}, head ${head}`, ...numbers].join(" · ");
}

function sayTile(place) {
  const [at, head] = place || [state.layer, state.head];
  document.getElementById("grid-line").textContent = tileWords(at, head);
}

// Draw every tile: pictures of maps, or colours of numbers.
async function drawOverview() {
  const said = measuresShown().find((it) => it.name === state.shown);
  if (state.shown === "maps") await drawSmallMaps();
  else drawNumbers(said);
  for (const [at, row] of tiles.entries()) {
    row.forEach((tile, head) => tile.setAttribute("aria-label", tileWords(at, head)));
  }
  markTile();
  sayTile(null);
}

async function drawSmallMaps() {
  const tops = facts.layers.flatMap((it) => (state.run === "difference" ? it.smallGaps.tops : [1]));
  const scale = state.run === "difference" ? scaleOf("gaps", Math.max(...tops)) : scaleOf("weights", 1);
  const { run } = state;
  for (const [at, layer] of facts.layers.entries()) {
    const small = await smallOf(layer, run);
    if (run !== state.run || state.shown !== "maps") return;
    const colours = palette(scale.kind);
    tiles[at].forEach((tile, head) => {
      const canvas = element("canvas", { width: small.columns, height: small.rows });
      const context = canvas.getContext("2d");
      const image = context.createImageData(small.columns, small.rows);
      const pixels = new Uint32Array(image.data.buffer);
      small.of(head).forEach((value, i) => { pixels[i] = colours[scale.place(value)]; });
      context.putImageData(image, 0, 0);
      tile.style.background = "";
      tile.replaceChildren(canvas);
    });
  }
  const words = run === "difference" ? "largest difference in each block" : "largest weight in each block";
  drawLegend(document.getElementById("legend"), scale, `${words}, square-root scale`, marksOf(scale));
}

function drawNumbers(said) {
  const all = facts.layers.flatMap((layer) => Array.from({ length: layer.heads }, (_, head) => numberOf(layer, said.name, head)));
  const there = all.filter((it) => it !== null);
  const scale = numberScale(said, there);
  const wide = tiles[0][0].clientWidth >= 30;
  for (const [at, layer] of facts.layers.entries()) {
    tiles[at].forEach((tile, head) => {
      const number = numberOf(layer, said.name, head);
      tile.style.background = number === null ? "" : css(scale, number);
      tile.style.color = number === null ? "" : inkOn(scale, number);
      tile.replaceChildren(number === null ? "–" : wide ? short(number) : "");
    });
  }
  const marks = scale.kind === "gaps" ? marksOf(scale) : [[scale.low, short(scale.low)], [scale.top, short(scale.top)]];
  drawLegend(document.getElementById("legend"), scale, said.how, marks);
}

function numberScale(said, there) {
  if (state.run === "difference") return scaleOf("gaps", Math.max(...there.map(Math.abs), 1e-9));
  const [low, high] = said.share ? [0, 1] : [Math.min(0, ...there), Math.max(...there, 0)];
  return { ...linearScale(low, high), low };
}

function measuresShown() {
  if (isTrace()) return facts.measures;
  return [
    { name: "entropy_nats", how: "mean entropy of the rows, in nats" },
    { name: "distance_tokens", how: "mean distance of the keys from the query, by weight, in tokens" },
    ...facts.measures.map((it) => ({ ...it, share: true })),
  ];
}

const wordsOf = (name) => NAMES[name] || name.replaceAll("_", " ");

function markTile() {
  for (const tile of grid.querySelectorAll("[aria-selected=true]")) {
    tile.setAttribute("aria-selected", "false");
    tile.tabIndex = -1;
  }
  const tile = tiles[state.layer][state.head];
  tile.setAttribute("aria-selected", "true");
  tile.tabIndex = 0;
}

function overviewKey(event) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -999], End: [0, 999] };
  const step = steps[event.key];
  if (step) {
    const layer = Math.min(facts.layers.length - 1, Math.max(0, state.layer + step[0]));
    const head = Math.min(facts.layers[layer].heads - 1, Math.max(0, state.head + step[1]));
    openHead(layer, head).then(() => tiles[layer][head].focus());
    event.preventDefault();
  } else if (event.key === "Enter" && !isTrace()) {
    document.getElementById("map").focus();
    event.preventDefault();
  }
}
