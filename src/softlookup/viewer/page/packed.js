// The data of the page: plain facts, and packed numbers that are unpacked when they are first looked at.

const facts = JSON.parse(document.getElementById("facts").textContent);
const kept = new Map(); // name -> promise of its bytes; the last ones
const MOST_KEPT = 96;

// The text of packed numbers. The script runs before the browser has read all of the page; what has a
// neighbour behind it was read to its end.
async function packedText(name) {
  for (;;) {
    const read = document.readyState !== "loading";
    const holder = document.getElementById(`packed-${name}`);
    if (holder && (read || holder.nextSibling)) return holder.textContent;
    if (read) throw new Error(`this page is cut off: it does not hold ${name}`);
    await new Promise((later) => { setTimeout(later, 15); });
  }
}

async function unpack(name) {
  const text = await packedText(name);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function bytesOf(name) {
  let found = kept.get(name);
  if (found) kept.delete(name); // and again to the end: the oldest goes first
  else found = unpack(name);
  kept.set(name, found);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return found;
}

function weightsFrom(codes, step) {
  const table = Float32Array.from({ length: 256 }, (_, code) => (code * step) ** 2);
  const values = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) values[i] = table[codes[i]];
  return values;
}

function gapsFrom(codes, step) {
  const table = Float32Array.from({ length: 256 }, (_, code) => {
    const root = (code - 128) * step;
    return root * Math.abs(root);
  });
  const values = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) values[i] = table[codes[i]];
  return values;
}

// Runs: "first", "second" (first + difference), "difference".
async function valuesOf(holder, head, run) {
  const weights = run === "difference" ? null : weightsFrom(await bytesOf(`${holder.maps.id}-${head}`), holder.maps.steps[head]);
  if (run === "first") return weights;
  const gaps = gapsFrom(await bytesOf(`${holder.gaps.id}-${head}`), holder.gaps.steps[head]);
  if (run === "difference") return gaps;
  for (let i = 0; i < gaps.length; i++) gaps[i] = Math.max(0, gaps[i] + weights[i]);
  return gaps;
}

// Small maps of one layer lie together.
async function smallOf(layer, run) {
  const said = run === "difference" ? layer.smallGaps : layer.small;
  const [rows, columns] = said.shape;
  const codes = await bytesOf(said.id);
  const from = run === "difference" ? gapsFrom : weightsFrom;
  return { rows, columns, of: (head) => from(codes.subarray(head * rows * columns, (head + 1) * rows * columns), said.steps[head]) };
}

// Return 0..255 for each cell, 0: hidden; null: everything is seen, or nothing is known.
async function maskOf(holder, head) {
  if (!holder.mask || !holder.mask.id) return null;
  const bytes = await bytesOf(holder.mask.id);
  const cells = bytes.length / holder.mask.heads;
  return holder.mask.heads > 1 ? bytes.subarray(head * cells, (head + 1) * cells) : bytes;
}

// The map that is looked at: a whole or pooled map, or an exact window of a pooled one.
async function mapOf(layer, head, run, window) {
  const holder = window === null ? layer : layer.windows[window];
  const [values, mask] = await Promise.all([valuesOf(holder, head, run), maskOf(holder, head)]);
  const [rows, columns] = holder.maps.shape;
  const grid = window === null ? layer.grid : [1, 1];
  const start = window === null ? [0, 0] : [holder.q[0], holder.k[0]];
  return {
    values, mask, rows, columns, grid, start,
    step: (run === "difference" ? holder.gaps : holder.maps).steps[head],
    exact: window !== null || layer.form === "whole",
    queries: (row) => span(row, grid[0], start[0], layer.qLen),
    keys: (column) => span(column, grid[1], start[1], layer.kLen),
    rowOf: (query) => Math.floor((query - start[0]) / grid[0]),
    columnOf: (key) => Math.floor((key - start[1]) / grid[1]),
    at: (row, column) => values[row * columns + column],
    error: (value, step) => Math.sqrt(Math.abs(value)) * step + (step * step) / 4, // half a code, at most
    hidden: (row, column) => mask !== null && mask[row * columns + column] === 0,
  };
}

// The first and last position of a cell.
const span = (at, width, start, length) => [start + at * width, Math.min(start + (at + 1) * width, length) - 1];
