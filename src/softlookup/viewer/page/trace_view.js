// A watch holds numbers and no maps: how a head's number went over the steps, and the alarms.

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawSeries() {
  const layer = layerNow();
  const { steps, low, mean, high } = layer.series;
  const name = state.shown;
  const place = document.getElementById("series");
  place.replaceChildren();
  if (!mean[name]) return;
  const points = steps.map(([first, last], at) => ({
    step: (first + last) / 2, low: low[name][at][state.head], mean: mean[name][at][state.head], high: high[name][at][state.head],
  })).filter((it) => it.mean !== null);
  const said = facts.measures.find((it) => it.name === name);
  place.append(element("p", { className: "line", textContent: said.how }));
  if (!points.length) {
    place.append(element("p", { className: "dim", textContent: "never measured for this head" }));
    return;
  }
  place.append(chart(points, said), element("p", { className: "line dim",
    textContent: `last ${short(points.at(-1).mean)}; lowest ${short(Math.min(...points.map((it) => it.low)))}, highest ${short(Math.max(...points.map((it) => it.high)))}` }));
}

function chart(points, said) {
  const [wide, high, left, bottom] = [Math.max(280, document.getElementById("series").clientWidth), 260, 52, 28];
  let [least, most] = said.share ? [0, 1] : [Math.min(...points.map((it) => it.low)), Math.max(...points.map((it) => it.high))];
  if (least === most) [least, most] = [least - 0.5, most + 0.5];
  const [first, last] = [points[0].step, points.at(-1).step];
  const x = (step) => left + ((wide - left - 12) * (step - first)) / (last - first || 1);
  const y = (value) => 10 + ((high - bottom - 10) * (most - value)) / (most - least);
  const path = (part) => points.map((it) => `${x(it.step).toFixed(1)},${y(it[part]).toFixed(1)}`);
  const drawn = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "chart", role: "img",
    "aria-label": `${wordsOf(said.name)} over the steps ${first} to ${last}: from ${short(points[0].mean)} to ${short(points.at(-1).mean)}` });
  for (const share of [0, 0.5, 1]) {
    const value = least + share * (most - least);
    drawn.append(svg("line", { x1: left, x2: wide - 12, y1: y(value), y2: y(value), class: "rule" }),
      svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  drawn.append(svg("text", { x: left, y: high - 8 }, `step ${Math.round(first)}`),
    svg("text", { x: wide - 12, y: high - 8, "text-anchor": "end" }, `${Math.round(last)}`));
  if (points.length === 1) drawn.append(svg("circle", { cx: x(first), cy: y(points[0].mean), r: 3, class: "dot" }));
  else {
    drawn.append(svg("polygon", { points: [...path("high"), ...path("low").reverse()].join(" "), class: "band" }),
      svg("polyline", { points: path("mean").join(" "), class: "mean" }));
  }
  return drawn;
}

function buildAlarms() {
  if (!facts.alarms.length) return;
  for (const alarm of facts.alarms) {
    const row = tiles[facts.layers.findIndex((it) => it.name === alarm.layer)] || [];
    row.filter((_, head) => alarm.head === null || alarm.head === head).forEach((tile) => tile.classList.add("alarmed"));
  }
  const section = document.getElementById("alarms");
  section.hidden = false;
  const list = section.querySelector("ul");
  for (const alarm of facts.alarms.slice(0, 200)) {
    const layer = facts.layers.findIndex((it) => it.name === alarm.layer);
    const item = element("li", {}, element("b", { textContent: `${alarm.code} ${alarm.name}` }), ` `,
      element("bdi", { dir: "auto", textContent: alarm.words }));
    if (layer >= 0) {
      const button = element("button", { type: "button", textContent: "show" });
      button.addEventListener("click", () => openHead(layer, alarm.head || 0));
      item.append(" ", button);
    }
    list.append(item);
  }
  if (facts.alarms.length > 200) list.append(element("li", { className: "dim", textContent: `and ${facts.alarms.length - 200} more` }));
}
