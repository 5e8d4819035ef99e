// Tokens and numbers as text. Tokens go into the page as text alone, each isolated from the direction of others.

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const LONGEST = 60; // characters that are shown of a token; all of them stand in its title

function tokenAt(list, position) {
  const text = list >= 0 ? facts.tokens[list][position] : undefined;
  return text === undefined ? String(position) : text;
}

function cut(text, most) {
  const letters = Array.from(text.slice(0, 4 * most)); // whole characters, not halves of a pair
  return letters.length <= most && text.length <= 4 * most ? text : `${letters.slice(0, most - 1).join("")}…`;
}

function tokenElement(text, most = LONGEST) {
  const made = element("bdi", { dir: "auto", className: "token" });
  const shown = cut(text, most);
  const space = shown.length > 1 && shown[0] === "·" ? 1 : 0; // the space before a word, faint
  if (space) made.append(element("span", { className: "space", textContent: "·" }));
  made.append(shown.slice(space));
  if (text.length > most) made.title = cut(text, 600);
  return made;
}

// A position in words: "17" or "512–1,023".
function placeWords([first, last]) {
  return first === last ? first.toLocaleString("en") : `${first.toLocaleString("en")}–${last.toLocaleString("en")}`;
}

// A number with about three digits.
function short(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size >= 1000) return Math.round(number).toLocaleString("en");
  if (size >= 100) return number.toFixed(0);
  if (size >= 10) return number.toFixed(1);
  const text = size >= 0.0995 ? String(Number(number.toFixed(size >= 1 ? 2 : 3)))
    : size >= 0.0001 ? String(Number(number.toPrecision(2))) : number.toExponential(0);
  return text.replace("-", "−");
}

// Paths of layers share most of their parts: what differs, and the pattern.
function shortNames(names) {
  const parts = names.map((name) => (name || "(the model)").split("."));
  if (parts.length === 1) return { pattern: "", names: [parts[0].join(".")] };
  const least = Math.min(...parts.map((it) => it.length)) - 1;
  const alike = (at) => parts.every((it) => at(it) === at(parts[0]));
  let before = 0;
  while (before < least && alike((it) => it[before])) before++;
  let after = 0;
  while (after < least - before && alike((it) => it[it.length - 1 - after])) after++;
  const rest = parts.map((it) => it.slice(before, it.length - after).join("."));
  const first = parts[0];
  const pattern = before + after ? [...first.slice(0, before), "*", ...first.slice(first.length - after)].join(".") : "";
  return { pattern, names: rest };
}
