// The page of the lab: a text, the maps of every head, one of them large, and experiments with it.

import { ask, Cancelled, start, takeToken } from "./asking.js";
import { ChangeList } from "./changes.js";
import { byId, cutToken, figure, make, token, weight } from "./elements.js";
import { HeadGrid } from "./heads.js";
import { Colours, difference, LargeMap, readMap } from "./maps.js";
import { Results, showOutcome, showVerdict } from "./results.js";

const state = {
  about: null,
  reading: null, // what "read" answered for the text on the page
  earlier: [], // readings that the lab may still keep, the newest last
  place: 0, // which call of attention, and which of its heads
  head: 0,
  query: 0,
  key: null, // pointed at
  maps: {}, // of the head on the page: unchanged, changed
  which: "unchanged",
  changedRun: false,
};
let colours, large, grid, changes, results;
const running = {}; // by kind: the job that would be cancelled by a newer one
const SOON_MS = 250; // work that ends before is not announced

const layer = () => state.reading.layers[state.place];
const tokensOf = (side) => (side === "source" ? state.reading.source : state.reading.tokens);
const queries = () => tokensOf(layer().queries_are);
const keys = () => tokensOf(layer().keys_are);

/** Do a job, with progress on the page; a newer one of the same kind cancels it. Undefined: it was cancelled. */
async function work(asked) {
  running[asked.do]?.cancel().catch(() => {});
  const begun = performance.now();
  const job = start(asked, (facts) => performance.now() - begun > SOON_MS && showProgress(facts));
  running[asked.do] = job;
  document.querySelector("main").ariaBusy = "true";
  byId("problem").hidden = true;
  try {
    return await job.result;
  } catch (problem) {
    if (!(problem instanceof Cancelled)) showProblem(problem);
    return undefined;
  } finally {
    if (running[asked.do] === job) delete running[asked.do];
    if (!Object.keys(running).length) {
      byId("work").hidden = true;
      document.querySelector("main").ariaBusy = "false";
    }
  }
}

function showProgress(job) {
  byId("work").hidden = false;
  byId("work-words").textContent = job.state === "waiting" ? "waiting" : job.words;
  const bar = byId("progress");
  if (job.of) {
    bar.max = job.of;
    bar.value = job.done;
  } else {
    bar.removeAttribute("value");
  }
}

function showProblem(problem) {
  byId("problem-words").textContent = problem.message;
  byId("problem").hidden = false;
}

async function read() {
  const facts = await work({ do: "read", text: byId("text").value, target: byId("target").value });
  if (!facts) return;
  const same = state.reading && state.reading.layers.length === facts.layers.length;
  facts.text = byId("text").value;
  if (state.reading) state.earlier = [...state.earlier, state.reading].slice(-3);
  state.reading = facts;
  state.changedRun = false;
  if (!same) Object.assign(state, { place: 0, head: 0 });
  state.head = Math.min(state.head, layer().heads - 1);
  state.query = queries().text.length - 1;
  for (const part of ["heads-part", "map-part", "experiment-part"]) byId(part).hidden = false;
  results.add(`read ${JSON.stringify(cutToken(facts.text, 60))}`, facts.python);
  showEarlier();
  showPositions();
  grid.show(facts);
  changes.fit(facts, state.earlier);
  byId("verdict").replaceChildren();
  await choose(state.place, state.head);
  await compare();
}

function showEarlier() {
  byId("earlier-part").hidden = !state.earlier.length;
  const options = [...state.earlier].reverse().map((it) => make("option", { value: it.text }, cutToken(it.text, 50)));
  byId("earlier").replaceChildren(make("option", { value: "" }, "take one up again"), ...options);
}

function showPositions() {
  byId("at-part").hidden = state.reading.outcome !== "tokens";
  const texts = state.reading.tokens.text;
  byId("at").replaceChildren(...texts.map((it, i) => make("option", { value: i }, `${i} ${cutToken(it, 20)}`)));
  byId("at").value = state.reading.at;
}

/** Show one head large. */
async function choose(place, head) {
  if (state.place !== place || state.head !== head) byId("verdict").replaceChildren();
  Object.assign(state, { place, head, maps: {} });
  state.query = Math.min(state.query, layer().size[0] - 1);
  grid.mark(place, head);
  changes.here = { layer: layer().layer, head, query: state.query };
  const maps = {};
  for (const which of state.changedRun ? ["unchanged", "changed"] : ["unchanged"]) {
    const facts = await work({ do: "map", reading: state.reading.reading, place, head, which });
    if (!facts || state.place !== place || state.head !== head) return;
    maps[which] = readMap(facts);
  }
  state.maps = maps;
  showMap();
}

function showMap() {
  const { unchanged, changed } = state.maps;
  if (!unchanged) return;
  byId("which-part").hidden = !changed;
  const which = changed ? state.which : "unchanged";
  const map = which === "difference" ? difference(changed, unchanged) : which === "changed" ? changed : unchanged;
  state.shown = map;
  const name = `${layer().layer || "the model"}${layer().call ? `, call ${layer().call}` : ""}`;
  byId("map-title").textContent = `${name} · head ${state.head}`;
  const top = which === "difference" ? largest(map) : 1;
  const shown = {
    difference: which === "difference", top, query: state.query, key: state.key,
    removed: changes.removedKeys(layer().layer, state.head, state.query),
    queries: queries().text, keys: keys().text,
  };
  large.draw(map, shown, byId("map-scroll").clientWidth);
  const rows = `${map.rows} queries by ${map.columns} keys`;
  byId("map").setAttribute("aria-label", `Map of ${name}, head ${state.head}: ${rows}. Up and down choose a query.`);
  showLegend(which === "difference", top);
  showRow(map, which);
}

/** The largest difference, in size; a little more than nothing where there is none. */
function largest(map) {
  return map.values.reduce((most, it) => Math.max(most, Math.abs(it)), 1e-6);
}

function showLegend(signed, top) {
  const canvas = byId("legend");
  const context = canvas.getContext("2d");
  for (let i = 0; i < 256; i++) {
    context.fillStyle = colours.css(
      signed ? colours.difference(((i - 127.5) / 127.5) * top, top) : colours.weight(colours.place(i / 255, 1)),
    );
    context.fillRect(i, 0, 1, 10);
  }
  byId("legend-low").textContent = signed ? `−${figure(top)}` : "weight 0";
  byId("legend-high").textContent = signed ? `+${figure(top)}` : "1";
}

function showRow(map, which) {
  const query = queries();
  byId("row-title").replaceChildren(`Query ${state.query} `, token(query.text[state.query] ?? ""));
  byId("row-hint").textContent = {
    unchanged: "Weights on its keys. Click a key to remove it: hidden before the softmax, the rest share its weight.",
    changed: "Weights on its keys in the changed run.",
    difference: "Weights in the changed run less those in the unchanged one.",
  }[which];
  const removed = changes.removedKeys(layer().layer, state.head, state.query);
  const start = state.query * map.columns;
  const top = which === "difference" ? largest(map) : 1;
  const chips = [];
  for (let i = 0; i < map.columns; i++) {
    chips.push(keyChip(i, map.values[start + i], Boolean(map.hidden[start + i]), removed.has(i), top));
  }
  byId("row").replaceChildren(...chips);
}

/** A key of the row; top: 1, or the largest difference of the map. */
function keyChip(i, value, blocked, removed, top) {
  const facts = keys();
  const which = state.maps.changed ? state.which : "unchanged";
  const number = blocked ? "hidden" : which === "difference" && value >= 0.0005 ? `+${weight(value)}` : weight(value);
  const special = facts.special.includes(i) ? " special" : "";
  const chip = make(
    "button",
    {
      type: "button", class: `key${removed ? " removed" : ""}${blocked ? " blocked" : ""}${special}`,
      "aria-pressed": String(removed), "data-key": i, disabled: blocked && !removed,
      onclick: () => changes.toggleKey(i, state.query),
    },
    token(facts.text[i] ?? ""),
    make("span", { class: "number" }, number),
  );
  if (!blocked) {
    const colour = which === "difference" ? colours.difference(value, top) : colours.weight(colours.place(value, 1));
    chip.style.background = colours.css(colour);
    chip.style.color = colours.ink(colour);
  }
  return chip;
}

/** Run the model with the changes on the page, and show what came of them. */
async function compare() {
  const at = Number(byId("at").value || state.reading.at);
  const asked = changes.asked();
  byId("no-changes").hidden = asked.length > 0;
  grid.changed(changes.places());
  if (!asked.length) {
    running.compare?.cancel().catch(() => {});
    state.changedRun = false;
    const found = await work({ do: "predictions", reading: state.reading.reading, at });
    if (found) showOutcome(byId("outcome"), { kind: "unchanged", outcome: state.reading.outcome, ...found }, state);
  } else {
    const found = await work({ do: "compare", reading: state.reading.reading, at, changes: asked });
    if (!found) return;
    state.changedRun = true;
    showOutcome(byId("outcome"), found, state);
    results.add(summary(found), found.python);
  }
  await choose(state.place, state.head);
}

function summary(found) {
  const effect =
    found.kind === "states"
      ? `cosine distance ${figure(found.cosine_distance)}`
      : `KL ${figure(found.kl_nats)} nats, logit difference ${found.logit_difference.map((it) => figure(it, 2)).join(" → ")}`;
  return `${found.changes.join("; ")}: ${effect}`;
}

async function verdict() {
  const at = Number(byId("at").value || state.reading.at);
  const asked = { reading: state.reading.reading, place: state.place, head: state.head, query: state.query, at };
  byId("ask-verdict").disabled = true;
  const found = await work({ do: "verdict", ...asked });
  byId("ask-verdict").disabled = false;
  if (!found) return;
  showVerdict(byId("verdict"), found, keys());
  results.add(`verdict on ${layer().layer}, head ${asked.head}, query ${asked.query}: ${found.word}`, found.python);
}

function listen() {
  byId("read").onclick = read;
  for (const field of ["text", "target"]) {
    byId(field).onkeydown = (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        read();
      }
    };
  }
  byId("cancel").onclick = () => Object.values(running).forEach((it) => it.cancel().catch(() => {}));
  byId("problem-close").onclick = () => (byId("problem").hidden = true);
  byId("earlier").onchange = () => {
    if (byId("earlier").value) byId("text").value = byId("earlier").value;
    byId("earlier").value = "";
  };
  byId("which").onchange = () => {
    state.which = byId("which").value;
    showMap();
  };
  byId("at").onchange = compare;
  byId("ask-verdict").onclick = verdict;
  listenToMap();
  addEventListener("resize", showMap);
  colours.darkness.addEventListener("change", () => {
    if (state.reading) grid.show(state.reading);
    grid.mark(state.place, state.head);
    showMap();
  });
}

function listenToMap() {
  const canvas = byId("map");
  const at = (query) => {
    state.query = Math.max(0, Math.min(state.shown.rows - 1, query));
    changes.here.query = state.query;
    byId("verdict").replaceChildren();
    showMap();
  };
  canvas.onclick = (event) => {
    const cell = large.under(event);
    if (cell) at(cell.query);
  };
  canvas.onpointermove = (event) => pointed(large.under(event));
  canvas.onpointerleave = () => pointed(null);
  canvas.onkeydown = (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (!step) return;
    event.preventDefault();
    at(state.query + step);
  };
}

function pointed(cell) {
  const place = byId("pointed");
  if (!cell) return place.replaceChildren();
  const i = cell.query * state.shown.columns + cell.key;
  const value = state.shown.hidden[i] ? "hidden" : state.shown.values[i].toFixed(5);
  place.replaceChildren(
    `query ${cell.query} `, token(queries().text[cell.query]), ` → key ${cell.key} `, token(keys().text[cell.key]), `: ${value}`,
  );
}

async function begin() {
  takeToken();
  try {
    state.about = await ask("/api/model");
  } catch (problem) {
    return showProblem(problem);
  }
  const { about } = state;
  colours = new Colours(about.colours);
  large = new LargeMap(byId("map"), colours);
  grid = new HeadGrid(byId("heads"), colours, choose);
  changes = new ChangeList(compare);
  results = new Results();
  const millions = figure(about.parameters / 1e6, about.parameters < 1e6 ? 3 : 1);
  byId("model").textContent = `${about.name} · ${about.class} · ${millions} million parameters`;
  document.title = `${about.name} · softlookup lab`;
  byId("target-part").hidden = !about.encoder_decoder;
  if (!about.tokenizer) {
    byId("text-label").textContent = "Token ids: this model has no tokenizer beside it";
    byId("text").value = "3 1 4 1 5 9 2 6";
  } else {
    byId("text").value = "The Eiffel Tower is in Paris. The Eiffel Tower is in";
  }
  listen();
  await read();
}

begin();
