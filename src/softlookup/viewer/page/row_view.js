// One query: its largest keys with their weights, and the text, each token shaded by the weight on it.

const MOST_TOP = 10;
const MOST_TOKENS = 3000; // of a text; the rest is said to be left out
let flows = { key: null, keys: [], queries: [] }; // the elements of the texts, made once for a map

function drawRow() {
  const { map } = state;
  const layer = layerNow();
  const query = queryNow();
  const title = document.getElementById("row-title");
  title.replaceChildren("Query ", ...placeAndToken(map.queries(query), layer.queries, "q"));
  document.getElementById("row-line").textContent = rowWords(query);
  drawTop(query);
  buildTexts(layer);
  shadeTexts(query);
}

// What this row sums to, and what it is on.
function rowWords(query) {
  const { map } = state;
  let [sum, seen] = [0, 0];
  for (let column = 0; column < map.columns; column++) {
    if (!map.hidden(query, column)) seen++;
    sum += map.at(query, column);
  }
  if (state.run === "difference") return "how the weights of this query differ between the runs";
  const things = map.grid[1] > 1 ? `blocks of ${map.grid[1]} keys` : "keys";
  if (state.window !== null) return `about ${short(Math.min(1, sum))} of this query's weight lies in this window of ${seen} visible keys`;
  if (sum === 0) return "this query sees no key";
  return map.mask ? `weights on ${seen} visible ${things}` : `weights on ${map.columns} ${things}`;
}

function drawTop(query) {
  const { map } = state;
  const layer = layerNow();
  const scale = scaleNow();
  const order = Array.from({ length: map.columns }, (_, column) => column)
    .filter((column) => map.at(query, column) !== 0)
    .sort((a, b) => Math.abs(map.at(query, b)) - Math.abs(map.at(query, a)) || a - b)
    .slice(0, MOST_TOP);
  document.getElementById("top").replaceChildren(...order.map((column) => {
    const value = map.at(query, column);
    const fill = element("span", { className: "fill" });
    fill.style.width = `${100 * Math.sqrt(Math.min(1, Math.abs(value) / scale.top))}%`; // as the colours run
    fill.style.background = state.run === "difference" ? css(scale, value) : style("--bar");
    const item = element("li", { className: column === keyNow() ? "chosen" : "" },
      element("span", { className: "what" }, ...placeAndToken(map.keys(column), layer.keys, "k")),
      element("span", { className: "track" }, fill),
      element("span", { className: "value", textContent: signed(value) }));
    item.dataset.key = column;
    return item;
  }));
}

// The texts of a map are made once; the pointer only changes their shades.
function buildTexts(layer) {
  const { map } = state;
  const key = [state.layer, state.window, layer.keys, layer.queries].join();
  if (flows.key === key) return;
  const place = document.getElementById("texts");
  place.replaceChildren();
  flows = { key, keys: [], queries: [] };
  if (layer.kind === "cross") {
    place.append(textOf("queries", map.rows, map.queries, layer.queries, "Queries: choose one"));
    place.append(textOf("keys", map.columns, map.keys, layer.keys, "Keys, shaded by the weight on them"));
  } else {
    place.append(textOf("keys", map.columns, map.keys, layer.keys, "Keys, shaded by the weight on them; choose one as the query"));
  }
}

function textOf(role, count, placeOf, list, words) {
  const text = element("div", { className: "text", tabIndex: 0 });
  text.setAttribute("role", "listbox");
  text.setAttribute("aria-label", words);
  text.dataset.role = role;
  for (let at = 0; at < Math.min(count, MOST_TOKENS); at++) {
    const place = placeOf(at);
    const alone = place[0] === place[1];
    const item = alone && list >= 0
      ? tokenElement(tokenAt(list, place[0]))
      : element("span", { className: "token position", textContent: placeWords(place) });
    item.dataset.at = at;
    item.setAttribute("role", "option");
    flows[role].push(item);
    text.append(item, "\u200b");
  }
  if (count > MOST_TOKENS) text.append(element("span", { className: "dim", textContent: ` … and ${count - MOST_TOKENS} more` }));
  return element("div", {}, element("p", { className: "dim label", textContent: words }), text);
}

function shadeTexts(query) {
  const { map } = state;
  const layer = layerNow();
  const scale = scaleNow();
  const key = keyNow();
  const own = layer.kind === "cross" || map.grid[1] > 1 ? null : map.columnOf(map.queries(query)[0] + layer.offset);
  flows.keys.forEach((item, column) => {
    const value = map.at(query, column);
    const hidden = map.hidden(query, column);
    item.style.background = hidden ? "" : css(scale, value);
    item.style.color = hidden ? "" : inkOn(scale, value);
    item.classList.toggle("masked", hidden);
    item.classList.toggle("is-key", column === key);
    item.classList.toggle("is-query", column === own);
    item.setAttribute("aria-selected", String(column === key));
  });
  flows.queries.forEach((item, row) => {
    item.classList.toggle("is-query", row === query);
    item.setAttribute("aria-selected", String(row === query));
  });
}

// The row of the map that belongs to a token of a text, or null.
function queryOf(role, at) {
  if (role === "queries") return at;
  const layer = layerNow();
  if (layer.kind === "cross" || state.map.grid[1] > 1) return null;
  const row = state.map.rowOf(state.map.keys(at)[0] - layer.offset);
  return row >= 0 && row < state.map.rows ? row : null;
}

function buildRowView() {
  const place = document.getElementById("texts");
  const tokenOf = (target) => (target.closest ? target.closest("[data-at]") : null);
  place.addEventListener("mouseover", (event) => {
    const item = tokenOf(event.target);
    if (!item) return hover(null, null);
    const role = item.parentElement.dataset.role;
    return role === "queries" ? hover(Number(item.dataset.at), null) : hover(null, Number(item.dataset.at));
  });
  place.addEventListener("mouseleave", () => hover(null, null));
  place.addEventListener("click", (event) => {
    const item = tokenOf(event.target);
    if (!item) return;
    const row = queryOf(item.parentElement.dataset.role, Number(item.dataset.at));
    if (row === null) choose(state.query, Number(item.dataset.at));
    else choose(row, null);
  });
  const top = document.getElementById("top");
  const itemOf = (event) => event.target.closest("li");
  top.addEventListener("mouseover", (event) => {
    if (itemOf(event)) markKey(Number(itemOf(event).dataset.key));
  });
  top.addEventListener("mouseleave", () => markKey(null));
  top.addEventListener("click", (event) => {
    if (itemOf(event)) choose(state.query, Number(itemOf(event).dataset.key));
  });
  document.getElementById("row-before").addEventListener("click", () => choose(state.query - 1, null));
  document.getElementById("row-after").addEventListener("click", () => choose(state.query + 1, null));
  document.getElementById("row").addEventListener("keydown", rowKey);
}

// Mark a key on the map without drawing its list anew: the pointer is on that list.
function markKey(column) {
  state.over = column === null ? null : { query: null, key: column };
  drawMap();
  shadeTexts(state.query);
}

function rowKey(event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  if (step) choose(state.query + step[0], step[0] ? null : state.key + step[1]);
  else if (event.key === "Escape") mapCanvas.focus();
  else return;
  event.preventDefault();
}
