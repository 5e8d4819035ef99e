// What is looked at, and who has to draw again when it changes.

const state = {
  layer: 0, head: 0,
  query: null, key: null, // chosen: positions of the map, not of the sequence where it is pooled
  over: null, // what the pointer is over: {query, key}, either may be null
  run: "first",
  shown: "maps", // in the overview
  window: null, // number of an exact window
  view: null, // part of the map that is drawn: {q0, q1, k0, k1}
  mask: true, ownScale: false,
  map: null, // what is drawn, unpacked
};

const listeners = [];
const onChange = (call) => listeners.push(call);

function tell(...what) {
  for (const call of listeners) call(new Set(what));
}

const layerNow = () => facts.layers[state.layer];
const compared = () => "gaps" in facts.layers[0];
const isTrace = () => facts.form === "trace";

function failed(error) {
  document.getElementById("note").textContent = `This could not be drawn: ${error.message}`;
}

let asked = 0; // only the answer to the last question is drawn

async function openHead(layer, head, { window = null } = {}) {
  const before = state.window === window ? state.map : null;
  Object.assign(state, { layer, head, window, over: null });
  if (isTrace()) return tell("head");
  const mine = ++asked;
  const map = await mapOf(layerNow(), head, state.run, window).catch(failed);
  if (mine !== asked || !map) return undefined;
  state.map = map;
  // The same query and key of another head, where its map is of the same size.
  const same = before && before.rows === map.rows && before.columns === map.columns;
  if (!same) state.view = { q0: 0, q1: map.rows, k0: 0, k1: map.columns };
  if (!same) choose(map.rows - 1, null, true);
  return tell("head", "place");
}

// Choose a query, and a key: its largest where none is given.
function choose(query, key, quiet = false) {
  const { map } = state;
  state.query = Math.min(map.rows - 1, Math.max(0, query));
  state.key = key === null ? largestOf(state.query) : Math.min(map.columns - 1, Math.max(0, key));
  state.over = null;
  bringIntoView();
  if (!quiet) tell("place");
}

function largestOf(row) {
  let best = 0;
  for (let column = 1; column < state.map.columns; column++) {
    if (Math.abs(state.map.at(row, column)) > Math.abs(state.map.at(row, best))) best = column;
  }
  return best;
}

function hover(query, key) {
  const before = state.over;
  const now = query === null && key === null ? null : { query, key };
  if (before === now || (before && now && before.query === now.query && before.key === now.key)) return;
  state.over = now;
  tell("place");
}

// The query and key that are spoken of: under the pointer, or else chosen.
const queryNow = () => (state.over && state.over.query !== null ? state.over.query : state.query);
const keyNow = () => (state.over && state.over.key !== null ? state.over.key : state.key);

function bringIntoView() {
  const { view, map } = state;
  const moved = (start, end, at, most) => {
    const wide = end - start;
    const first = at < start ? at : at >= end ? at - wide + 1 : start;
    return Math.min(most - wide, Math.max(0, first));
  };
  const q0 = moved(view.q0, view.q1, state.query, map.rows);
  const k0 = moved(view.k0, view.k1, state.key, map.columns);
  state.view = { q0, q1: q0 + view.q1 - view.q0, k0, k1: k0 + view.k1 - view.k0 };
}

// Zoom by a factor around what is chosen; 0: the whole map.
function zoom(factor) {
  const { view, map } = state;
  const part = (start, end, at, most) => {
    const wide = factor ? Math.min(most, Math.max(Math.min(8, most), Math.round((end - start) / factor))) : most;
    const first = Math.min(most - wide, Math.max(0, Math.round(at - wide / 2)));
    return [first, first + wide];
  };
  const [q0, q1] = part(view.q0, view.q1, state.query, map.rows);
  const [k0, k1] = part(view.k0, view.k1, state.key, map.columns);
  state.view = { q0, q1, k0, k1 };
  tell("head", "place");
}

// The scale of the large map.
function scaleNow() {
  const layer = layerNow();
  const holder = state.window === null ? layer : layer.windows[state.window];
  if (state.run === "difference") {
    const most = Math.max(...facts.layers.flatMap((it) => it.gaps.tops), ...(holder.gaps ? holder.gaps.tops : []));
    return scaleOf("gaps", state.ownScale ? holder.gaps.tops[state.head] : most);
  }
  return scaleOf("weights", state.ownScale ? holder.maps.tops[state.head] : 1);
}
