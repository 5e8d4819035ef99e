// Maps as pictures: small ones of every head, a large one of one head, and the colours they share.

import { cutToken } from "./elements.js";

const HIDDEN = 65535;
const STEPS = 65534;

/** Bytes out of base64. */
export function bytes(text) {
  return Uint8Array.from(atob(text), (it) => it.charCodeAt(0));
}

/** Weights of one head: {rows, columns, values: Float32Array, hidden: Uint8Array}. */
export function readMap(facts) {
  const raw = bytes(facts.codes);
  const count = facts.rows * facts.columns;
  const values = new Float32Array(count);
  const hidden = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const code = raw[2 * i] | (raw[2 * i + 1] << 8);
    hidden[i] = code === HIDDEN ? 1 : 0;
    values[i] = code === HIDDEN ? 0 : code / STEPS;
  }
  return { rows: facts.rows, columns: facts.columns, values, hidden };
}

/** One map minus another of the same size. */
export function difference(one, other) {
  const values = one.values.map((it, i) => it - other.values[i]);
  const hidden = one.hidden.map((it, i) => it & other.hidden[i]);
  return { ...one, values, hidden };
}

/** Reads colours as six digits each. */
function scale(text) {
  const colours = new Uint8Array(256 * 3);
  for (let i = 0; i < colours.length; i++) colours[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return colours;
}

/** The colours of weights and of differences, light and dark. */
export class Colours {
  constructor(texts) {
    this.scales = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, scale(text)]));
    this.darkness = matchMedia("(prefers-color-scheme: dark)");
  }

  get dark() {
    return this.darkness.matches;
  }

  /** Place 0..255 of a weight, on a scale of square roots: small weights can be told apart. */
  place(value, top) {
    return Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, value / top))));
  }

  weight(place) {
    const i = this.dark ? 255 - place : place;
    return this.scales.weights.subarray(3 * i, 3 * i + 3);
  }

  difference(value, top) {
    const share = Math.max(-1, Math.min(1, top ? value / top : 0));
    const i = Math.round(127.5 + 127.5 * Math.sign(share) * Math.sqrt(Math.abs(share)));
    return this.scales[this.dark ? "differences_dark" : "differences"].subarray(3 * i, 3 * i + 3);
  }

  css([red, green, blue]) {
    return `rgb(${red} ${green} ${blue})`;
  }

  /** Black or white, whichever stands out more on a colour. */
  ink(colour) {
    const [red, green, blue] = [...colour].map((it) => (it / 255) ** 2.2);
    const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    return light + 0.05 > 0.05 * Math.sqrt(21) ? "#000000" : "#ffffff"; // where both contrasts are equal
  }
}

/** Draw the small map of one head, a cell a pixel; the style sheet makes it larger. */
export function drawSmall(canvas, layer, raw, head, colours) {
  const [rows, columns] = layer.cells;
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    image.data.set(colours.weight(raw[head * rows * columns + i]), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

const SMALLEST_LABELLED = 11; // pixels of a cell beside which a token can be read
const LARGEST = 30;

/** Draws one head large, and says which cell lies under a point. */
export class LargeMap {
  constructor(canvas, colours) {
    this.canvas = canvas;
    this.colours = colours;
  }

  /** map: of readMap; shown: {difference, query, key, removed: Set of keys, queries, keys: tokens}. */
  draw(map, shown, width) {
    this.map = map;
    const context = this.canvas.getContext("2d");
    this.font = "12px system-ui, sans-serif";
    context.font = this.font;
    const longest = (texts) => Math.min(100, Math.max(...texts.map((it) => context.measureText(cutToken(it)).width)));
    const left = Math.ceil(longest(shown.queries)) + 10;
    this.labels = (width - left - 4) / map.columns >= SMALLEST_LABELLED;
    this.left = this.labels ? left : 4;
    this.top = this.labels ? Math.ceil(longest(shown.keys)) + 12 : 4;
    const cell = Math.min(LARGEST, (width - this.left - 4) / map.columns);
    this.cell = cell >= 3 ? Math.floor(cell) : Math.max(1, cell);
    const wide = Math.ceil(this.left + this.cell * map.columns + 4);
    const high = Math.ceil(this.top + this.cell * map.rows + 4);
    const density = window.devicePixelRatio || 1;
    this.canvas.width = wide * density;
    this.canvas.height = high * density;
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${high}px`;
    context.setTransform(density, 0, 0, density, 0, 0);
    this.cells(context, map, shown);
    if (this.labels) this.tokens(context, map, shown);
    this.marks(context, map, shown);
  }

  cells(context, map, shown) {
    const small = new OffscreenCanvas(map.columns, map.rows);
    const inner = small.getContext("2d");
    const image = inner.createImageData(map.columns, map.rows);
    const none = this.colours.dark ? [43, 48, 56] : [222, 225, 230];
    for (let i = 0; i < map.values.length; i++) {
      let colour = none;
      if (!map.hidden[i]) {
        colour = shown.difference
          ? this.colours.difference(map.values[i], shown.top)
          : this.colours.weight(this.colours.place(map.values[i], 1));
      }
      image.data.set(colour, 4 * i);
      image.data[4 * i + 3] = 255;
    }
    inner.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = this.cell < 1;
    context.drawImage(small, this.left, this.top, this.cell * map.columns, this.cell * map.rows);
  }

  tokens(context, map, shown) {
    const ink = getComputedStyle(this.canvas).color;
    const faint = getComputedStyle(this.canvas).getPropertyValue("--faint");
    context.font = this.font;
    context.textBaseline = "middle";
    context.textAlign = "right";
    shown.queries.forEach((text, i) => {
      context.fillStyle = i === shown.query ? ink : faint;
      context.fillText(cutToken(text), this.left - 5, this.top + (i + 0.5) * this.cell, this.left - 6);
    });
    context.textAlign = "left";
    shown.keys.forEach((text, i) => {
      context.save();
      context.translate(this.left + (i + 0.5) * this.cell, this.top - 6);
      context.rotate(-Math.PI / 2);
      context.fillStyle = shown.removed.has(i) || i === shown.key ? ink : faint;
      context.fillText(cutToken(text), 0, 0, this.top - 6);
      context.restore();
    });
  }

  marks(context, map, shown) {
    const style = getComputedStyle(this.canvas);
    context.lineWidth = 2;
    context.strokeStyle = style.getPropertyValue("--mark");
    const wide = this.cell * map.columns;
    context.strokeRect(this.left, this.top + shown.query * this.cell, wide, Math.max(2, this.cell));
    context.strokeStyle = style.getPropertyValue("--bad");
    for (const key of shown.removed) {
      const x = this.left + (key + 0.5) * this.cell;
      context.beginPath();
      context.moveTo(x, this.top);
      context.lineTo(x, this.top + this.cell * map.rows);
      context.stroke();
    }
  }

  /** The cell under a point of the canvas: {query, key}, or null. */
  under(event) {
    if (!this.map) return null;
    const box = this.canvas.getBoundingClientRect();
    const key = Math.floor((event.clientX - box.left - this.left) / this.cell);
    const query = Math.floor((event.clientY - box.top - this.top) / this.cell);
    const inside = key >= 0 && query >= 0 && key < this.map.columns && query < this.map.rows;
    return inside ? { query, key } : null;
  }
}
