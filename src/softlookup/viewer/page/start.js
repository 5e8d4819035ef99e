// Everything is put together here: words of the page, switches, keys, and the first drawing.

const KEYS = [
  ["/", "search for heads"],
  ["← ↑ ↓ →", "another head; on the map another query or key; in the row another key or query"],
  ["Enter", "from the heads to the map, from the map to the row, or into an exact window"],
  ["Shift ↑ ↓", "on the map: another query, at its largest key"],
  ["Escape", "one step back"],
  ["+ − 0", "on the map: zoom in, out, whole map"],
  ["m", "mask on or off"],
  ["d", "first run, second run, difference"],
  ["t", "light or dark"],
  ["?", "these keys"],
];

const NOTE = {
  maps: "A map records one routing step: where each query looked, not why the model answered as it did. To learn whether a weight matters, change something and compare the outputs: softlookup.experiments.",
  trace: "A watch keeps numbers of each head and no maps: none are drawn here. For maps of one input: softlookup.view(model, text=...).",
};

function buildWords() {
  document.getElementById("title").textContent = facts.title;
  const { pattern } = shortNames(facts.layers.map((it) => it.name));
  document.getElementById("subtitle").replaceChildren(facts.subtitle, pattern ? " · " : "", element("bdi", { className: "path", textContent: pattern }));
  document.getElementById("note").textContent = NOTE[facts.form];
  const warnings = document.getElementById("warnings");
  const notes = facts.notes || [];
  warnings.hidden = !notes.length;
  warnings.append(...notes.slice(0, 6).map((text) => element("li", { textContent: text })));
  if (notes.length > 6) warnings.append(element("li", { textContent: `and ${notes.length - 6} more of this kind` }));
  document.getElementById("help-keys").append(...KEYS.flatMap(([keys, words]) =>
    [element("dt", {}, element("kbd", { textContent: keys })), element("dd", { textContent: words })]));
  document.getElementById("how-text").append(...howToRead().map((text) => element("p", { textContent: text })));
}

function howToRead() {
  const version = `Written by softlookup ${facts.version}. This page holds all its data and loads nothing.`;
  if (isTrace()) return [facts.coverage, version].filter(Boolean);
  const error = Math.max(...facts.layers.flatMap((it) => [it.maps.error, it.gaps ? it.maps.error + it.gaps.error : 0, ...it.windows.map((w) => w.maps.error)]));
  const pooled = facts.layers.filter((it) => it.form === "pooled");
  const sampled = pooled.filter((it) => it.looked < it.qLen);
  return [
    "Rows are queries, columns are keys; a row sums to 1. Hatched cells are hidden by the mask.",
    `Weights are held in 8 bits on a scale of square roots. Read back, the largest error of any number in this page is ${short(error)}, measured when it was written; small weights are held more finely than large ones, and beside each weight stands how far it may be off. Numbers of heads were computed before that.`,
    "Colours run on square roots too, so that small weights can be seen; the legend has the numbers. Lightness alone tells the order.",
    ...(pooled.length ? [`${pooled.length === 1 ? "One layer is" : `${pooled.length} layers are`} too long to be held whole: their maps are pooled, and a cell is the weight that a query of its block puts on the keys of its block, on average. Outlined windows are exact.`] : []),
    ...(sampled.length ? [`Of pooled layers, ${sampled[0].looked.toLocaleString("en")} of ${sampled[0].qLen.toLocaleString("en")} queries were looked at, spread evenly; the numbers of heads are of these.`] : []),
    ...facts.measures.map((it) => `“${it.name}”: ${it.how}.`),
    version,
  ];
}

function buildSwitches() {
  const shown = document.getElementById("shown");
  const names = [...(isTrace() ? [] : ["maps"]), ...measuresShown().map((it) => it.name)];
  shown.append(...names.map((name) => element("option", { value: name, textContent: wordsOf(name) })));
  state.shown = names[0];
  shown.addEventListener("change", () => {
    state.shown = shown.value;
    tell("overview", ...(isTrace() ? ["head"] : []));
  });
  document.getElementById("theme").addEventListener("click", turnTheme);
  document.getElementById("keys").addEventListener("click", () => document.getElementById("help").showModal());
  document.querySelector("#help button").addEventListener("click", () => document.getElementById("help").close());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  if (!isTrace() && compared()) buildRuns();
}

function buildRuns() {
  const place = document.getElementById("runs");
  place.hidden = false;
  const words = { difference: "difference", first: "first run", second: "second run" };
  for (const [run, text] of Object.entries(words)) {
    const button = element("button", { type: "button", textContent: text });
    button.setAttribute("role", "radio");
    button.dataset.run = run;
    button.addEventListener("click", () => setRun(run));
    place.append(button);
  }
  state.run = "difference";
  markRun();
}

function markRun() {
  for (const button of document.querySelectorAll("#runs button")) {
    button.setAttribute("aria-checked", String(button.dataset.run === state.run));
  }
}

function setRun(run) {
  state.run = run;
  markRun();
  tell("overview");
  openHead(state.layer, state.head, { window: state.window });
}

function turnTheme() {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  redrawAll();
}

function redrawAll() {
  document.getElementById("theme").textContent = dark() ? "Light" : "Dark";
  tell("overview", "head", "place");
}

function globalKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "/") field.focus();
  else if (event.key === "?") document.getElementById("help").showModal();
  else if (event.key === "t") turnTheme();
  else if (event.key === "m" && !isTrace()) document.getElementById("mask").click();
  else if (event.key === "d" && !isTrace() && compared()) {
    const runs = ["first", "second", "difference"];
    setRun(runs[(runs.indexOf(state.run) + 1) % 3]);
  } else return;
  event.preventDefault();
}

// Draw what changed, once a frame.
let waiting = null;
function drawSoon(what) {
  if (waiting) return what.forEach((it) => waiting.add(it));
  waiting = new Set(what);
  requestAnimationFrame(() => {
    const now = waiting;
    waiting = null;
    if (now.has("overview")) drawOverview();
    if (now.has("head") && (isTrace() || state.map)) {
      drawHead();
      markTile();
      sayTile(null);
      if (isTrace()) drawSeries();
    }
    if (!isTrace() && state.map && (now.has("place") || now.has("head"))) {
      drawMap();
      drawRow();
    }
  });
  return undefined;
}

// A watch opens where something went wrong first.
function firstAlarm() {
  const alarm = (facts.alarms || [])[0];
  const layer = alarm ? facts.layers.findIndex((it) => it.name === alarm.layer) : -1;
  return layer < 0 ? null : [layer, alarm.head || 0];
}

async function start() {
  if (typeof DecompressionStream !== "function") {
    document.getElementById("note").textContent = "This browser cannot unpack the maps of this page: it takes one of 2023 or later (Chromium 103, Firefox 113, Safari 16.4).";
    return;
  }
  document.body.dataset.form = facts.form;
  buildWords();
  buildSwitches();
  buildOverview();
  if (isTrace()) buildAlarms();
  else {
    buildMapView();
    buildRowView();
  }
  buildSearch();
  if (isTrace()) field.placeholder = "Search heads: entropy share";
  document.getElementById("theme").textContent = dark() ? "Light" : "Dark";
  onChange(drawSoon);
  document.addEventListener("keydown", globalKey);
  new ResizeObserver(() => tell("head", "place")).observe(mapPlace);
  const [layer, head] = facts.open || firstAlarm() || [0, 0];
  await openHead(layer, head);
  tell("overview");
  requestAnimationFrame(() => requestAnimationFrame(() => {
    performance.mark("softlookup-ready");
    document.body.dataset.ready = "yes";
  }));
}

start().catch(failed);
