// A map on a canvas: its cells, the mask over them, tokens or positions beside them, what is chosen.

const MOST_LABELS = 90; // cells of a side that are labelled one by one

// Return where the plot lies on a canvas so wide, in CSS pixels.
function planMap(width, map, view, layer) {
  const rows = view.q1 - view.q0;
  const columns = view.k1 - view.k0;
  const narrow = width < 420;
  const named = (list, count, grid) => list >= 0 && grid === 1 && count <= MOST_LABELS && width / count >= 10;
  const tokensLeft = named(layer.queries, rows, map.grid[0]);
  const tokensTop = named(layer.keys, columns, map.grid[1]);
  const left = tokensLeft ? Math.min(narrow ? 64 : 96, 14 + longest(layer.queries, view.q0 + map.start[0], rows)) : 46;
  const top = tokensTop ? Math.min(84, 16 + 0.87 * longest(layer.keys, view.k0 + map.start[1], columns)) : 26;
  const cell = Math.min((width - left - 6) / columns, Math.max(0.35 * width, Math.min(width - left - 6, 620)) / rows);
  return { left, top, cellW: cell, cellH: cell, wide: cell * columns, high: cell * rows, tokensLeft, tokensTop };
}

const FONT = "11px ui-sans-serif, system-ui, sans-serif";
const ruler = document.createElement("canvas").getContext("2d");

// A token beside the map: the sign of the space before a word takes room and says little there.
function labelOf(list, position) {
  const text = tokenAt(list, position);
  return cut(text.length > 1 && text[0] === "·" ? text.slice(1) : text, 12);
}

function longest(list, start, count) {
  ruler.font = FONT;
  let most = 0;
  for (let at = start; at < start + count; at++) most = Math.max(most, ruler.measureText(labelOf(list, at)).width);
  return most;
}

// Paint the cells of a part of the map, a pixel at a time where cells are smaller than pixels.
function paintCells(map, view, scale, plan, ratio) {
  const wide = Math.max(1, Math.round(plan.wide * ratio));
  const high = Math.max(1, Math.round(plan.high * ratio));
  const columns = view.k1 - view.k0;
  const rows = view.q1 - view.q0;
  const across = Math.min(wide, columns);
  const down = Math.min(high, rows);
  const image = new ImageData(across, down);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = palette(scale.kind);
  for (let y = 0; y < down; y++) {
    const r0 = view.q0 + Math.floor((y * rows) / down);
    const r1 = view.q0 + Math.max(Math.floor(((y + 1) * rows) / down), Math.floor((y * rows) / down) + 1);
    for (let x = 0; x < across; x++) {
      const c0 = view.k0 + Math.floor((x * columns) / across);
      const c1 = view.k0 + Math.max(Math.floor(((x + 1) * columns) / across), Math.floor((x * columns) / across) + 1);
      let value = 0; // the largest of the cells in this pixel
      for (let r = r0; r < r1; r++) {
        for (let c = c0; c < c1; c++) {
          const it = map.values[r * map.columns + c];
          if (Math.abs(it) > Math.abs(value)) value = it;
        }
      }
      pixels[y * across + x] = colours[scale.place(value)];
    }
  }
  return enlarged(image, wide, high);
}

function enlarged(image, wide, high) {
  const small = element("canvas", { width: image.width, height: image.height });
  small.getContext("2d").putImageData(image, 0, 0);
  const large = element("canvas", { width: wide, height: high });
  const context = large.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, wide, high);
  return large;
}

// Hatch what the mask hides.
function paintMask(map, view, plan, ratio) {
  const columns = view.k1 - view.k0;
  const rows = view.q1 - view.q0;
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      if (map.hidden(view.q0 + r, view.k0 + c)) pixels[r * columns + c] = 0xff000000;
    }
  }
  const layer = enlarged(image, Math.max(1, Math.round(plan.wide * ratio)), Math.max(1, Math.round(plan.high * ratio)));
  const context = layer.getContext("2d");
  context.globalCompositeOperation = "source-in";
  context.fillStyle = context.createPattern(hatch(ratio), "repeat");
  context.fillRect(0, 0, layer.width, layer.height);
  return layer;
}

function hatch(ratio) {
  const side = Math.round(7 * ratio);
  const tile = element("canvas", { width: side, height: side });
  const context = tile.getContext("2d");
  context.fillStyle = style("--hidden");
  context.fillRect(0, 0, side, side);
  context.strokeStyle = style("--hatch");
  context.lineWidth = Math.max(1, ratio * 0.8);
  for (const shift of [-side, 0, side]) {
    context.beginPath();
    context.moveTo(shift - 1, side + 1);
    context.lineTo(shift + side + 1, -1);
    context.stroke();
  }
  return tile;
}

// Tokens where they fit, positions where not.
function drawAxes(context, map, view, plan, layer) {
  context.fillStyle = style("--faint");
  context.font = FONT;
  context.textBaseline = "middle";
  context.direction = "ltr";
  const rows = view.q1 - view.q0;
  const columns = view.k1 - view.k0;
  context.textAlign = "right";
  for (const at of labelled(rows, plan.tokensLeft ? plan.cellH / 11 : plan.cellH / 22)) {
    const [first] = map.queries(view.q0 + at);
    const text = plan.tokensLeft ? labelOf(layer.queries, first) : first.toLocaleString("en");
    context.fillText(text, plan.left - 6, plan.top + (at + 0.5) * plan.cellH, plan.left - 10);
  }
  context.textAlign = plan.tokensTop ? "left" : "center";
  for (const at of labelled(columns, plan.tokensTop ? plan.cellW / 11 : plan.cellW / 46)) {
    const [first] = map.keys(view.k0 + at);
    const x = plan.left + (at + 0.5) * plan.cellW;
    if (plan.tokensTop) {
      context.save();
      context.translate(x + 2, plan.top - 6);
      context.rotate(-Math.PI / 3);
      context.fillText(labelOf(layer.keys, first), 0, 0, 84);
      context.restore();
    } else {
      context.fillText(first.toLocaleString("en"), Math.max(x, plan.left + 4), plan.top - 11);
    }
  }
}

// Every cell, or every so many, so that labels have room: `room` is a cell's size in labels.
function labelled(count, room) {
  const step = [1, 2, 5, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000].find((it) => it * room >= 1) || count;
  return Array.from({ length: Math.ceil(count / step) }, (_, number) => number * step);
}

// Outline the row and the column that are spoken of, and their cell.
function drawCross(context, view, plan, query, key) {
  const y = plan.top + (query - view.q0) * plan.cellH;
  const x = plan.left + (key - view.k0) * plan.cellW;
  const shownRow = query >= view.q0 && query < view.q1;
  const shownColumn = key >= view.k0 && key < view.k1;
  context.lineWidth = 1.5;
  if (shownColumn) {
    context.strokeStyle = style("--key");
    context.setLineDash([4, 3]);
    context.strokeRect(x - 0.75, plan.top - 0.75, plan.cellW + 1.5, plan.high + 1.5);
    context.setLineDash([]);
  }
  if (shownRow) {
    context.strokeStyle = style("--query");
    context.strokeRect(plan.left - 0.75, y - 0.75, plan.wide + 1.5, plan.cellH + 1.5);
  }
  if (shownRow && shownColumn) {
    context.lineWidth = 2.5;
    context.strokeStyle = style("--query");
    const grow = Math.max(0, 5 - plan.cellW) / 2;
    context.strokeRect(x - grow - 1, y - grow - 1, plan.cellW + 2 * grow + 2, plan.cellH + 2 * grow + 2);
  }
}

// Where exact windows lie in a pooled map.
function drawWindows(context, layer, map, view, plan) {
  context.strokeStyle = style("--query");
  context.lineWidth = 1.5;
  context.setLineDash([2, 2]);
  for (const window of layer.windows) {
    const x = plan.left + (window.k[0] / map.grid[1] - view.k0) * plan.cellW;
    const y = plan.top + (window.q[0] / map.grid[0] - view.q0) * plan.cellH;
    const wide = Math.max(5, ((window.k[1] - window.k[0]) / map.grid[1]) * plan.cellW);
    const high = Math.max(5, ((window.q[1] - window.q[0]) / map.grid[0]) * plan.cellH);
    context.strokeRect(Math.min(x, plan.left + plan.wide - wide), Math.min(y, plan.top + plan.high - high), wide, high);
  }
  context.setLineDash([]);
}
