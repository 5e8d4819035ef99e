// Colours: from a weight to a colour, on a scale of square roots, light or dark as the page is.

const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const tables = {};

// Return 256 colours as numbers that ImageData holds (little-endian: 0xAABBGGRR).
function palette(kind) {
  const name = kind === "gaps" && dark() ? "gapsDark" : kind;
  const turned = kind === "weights" && dark(); // no weight is paper, which is dark then
  const key = `${name}${turned}`;
  if (!tables[key]) {
    const hex = facts.colours[name];
    const table = new Uint32Array(256);
    for (let i = 0; i < 256; i++) {
      const at = 6 * (turned ? 255 - i : i);
      const [red, green, blue] = [0, 2, 4].map((part) => parseInt(hex.slice(at + part, at + part + 2), 16));
      table[i] = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    }
    tables[key] = table;
  }
  return tables[key];
}

// A scale says where in the palette a number lies: 0..255.
function scaleOf(kind, top) {
  const most = top || 1;
  if (kind === "gaps") {
    return { kind, top: most, place: (x) => {
      const root = Math.sqrt(Math.min(1, Math.abs(x) / most));
      return Math.round(127.5 * (1 + (x < 0 ? -root : root)));
    } };
  }
  return { kind, top: most, place: (x) => Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, x) / most))) };
}

function linearScale(low, high) {
  const span = high - low || 1;
  return { kind: "weights", top: high, place: (x) => Math.round(255 * Math.min(1, Math.max(0, (x - low) / span))) };
}

function css(scale, x) {
  const colour = palette(scale.kind)[scale.place(x)];
  return `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
}

// Black or white, whichever is easier to read on a colour.
function inkOn(scale, x) {
  const colour = palette(scale.kind)[scale.place(x)];
  const light = 0.299 * (colour & 255) + 0.587 * ((colour >> 8) & 255) + 0.114 * ((colour >> 16) & 255);
  return light > 140 ? "#16191d" : "#ffffff";
}

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Draw the scale as a strip with its numbers below it.
function drawLegend(place, scale, words, marks) {
  place.replaceChildren();
  const strip = element("canvas", { className: "strip", width: 256, height: 1 });
  strip.setAttribute("aria-hidden", "true");
  const context = strip.getContext("2d");
  const image = context.createImageData(256, 1);
  new Uint32Array(image.data.buffer).set(palette(scale.kind));
  context.putImageData(image, 0, 0);
  const numbers = element("div", { className: "marks" });
  for (const [mark, text] of marks) {
    const label = element("span", { textContent: text });
    label.style.left = `${(100 * scale.place(mark)) / 255}%`;
    numbers.append(label);
  }
  const bar = element("div", { className: "bar-of-scale" });
  bar.append(strip, numbers);
  place.append(bar, element("span", { className: "dim", textContent: words }));
}

function marksOf(scale) {
  if (scale.kind === "gaps") {
    return [[-scale.top, `−${short(scale.top)}`], [0, "0"], [scale.top, `+${short(scale.top)}`]];
  }
  const shares = scale.top === 1 ? [0, 0.01, 0.1, 0.25, 0.5, 1] : [0, 0.1, 0.25, 0.5, 1].map((it) => it * scale.top);
  return shares.map((it) => [it, short(it)]);
}
