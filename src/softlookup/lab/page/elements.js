// Elements made in code. Text only ever becomes text: nothing here, nor elsewhere on the page, parses HTML.

export const byId = (name) => document.getElementById(name);

/** Make an element: properties, then children, which are elements or texts. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const MOST_SHOWN = 40;

/** A token as an element of its own direction; a long one is cut, and says so when pointed at. */
export function token(text) {
  const characters = [...text];
  const cut = characters.length > MOST_SHOWN;
  const shown = cut ? characters.slice(0, MOST_SHOWN).join("") + "…" : text;
  return make("bdi", { class: "token", title: cut ? `${characters.length} characters` : "" }, shown);
}

/** The same for places that take plain text only: canvases and options. */
export function cutToken(text, most = 14) {
  const characters = [...text];
  return characters.length > most ? characters.slice(0, most - 1).join("") + "…" : text;
}

/** A weight, to three digits. */
export const weight = (value) => value.toFixed(3);

/** A number as people read it: three digits, small ones as powers of ten. */
export function figure(value, digits = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.0005) return value.toExponential(1);
  return size >= 100 ? value.toFixed(1) : value.toFixed(digits);
}
