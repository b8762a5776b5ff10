"use strict";
const parts = JSON.parse(document.getElementById("parts").textContent);
const main = document.getElementById("main");
const svgSpace = ["http:", "", "www.w3.org", "2000", "svg"].join("/");  // a name, which nothing is loaded from

function put(parent, name, attributes = {}, ...children) {
  const drawn = ["svg", "g", "rect", "line", "path", "text", "circle", "title"].includes(name);
  const made = drawn ? document.createElementNS(svgSpace, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  if (parent) parent.append(made);
  return made;
}

function section(id, title) {
  const made = put(main, "section", {id, "aria-labelledby": `${id}-title`});
  put(made, "h2", {id: `${id}-title`}, title);
  put(document.getElementById("sections"), "a", {href: `#${id}`}, title);
  return made;
}

function facts(parent, pairs) {
  const list = put(parent, "dl", {class: "facts"});
  for (const [name, value] of pairs) {
    const each = put(list, "div");
    put(each, "dt", {}, name.replaceAll("_", " "));
    put(each, "dd", {}, String(value));
  }
}

function wide(parent, label) {
  return put(parent, "div", {class: "wide", tabindex: "0", role: "region", "aria-label": label});
}

function picture(parent, label, width, height, description) {
  return put(wide(parent, label), "svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
                                          "aria-label": description});
}

function table(parent, label, columns, rows, numbers = []) {
  const made = put(wide(parent, label), "table");
  const head = put(put(made, "thead"), "tr");
  columns.forEach((c, i) => put(head, "th", {scope: "col", class: numbers.includes(i) ? "number" : ""}, c));
  const body = put(made, "tbody");
  const shown = rows.slice(0, 500);
  for (const row of shown) {
    const line = put(body, "tr");
    row.forEach((cell, i) => {
      const kind = numbers.includes(i) ? "number" : String(cell).length > 36 ? "long" : "";
      put(line, "td", {class: kind}, cell === null ? "-" : cell instanceof Node ? cell : String(cell));
    });
  }
  if (rows.length > shown.length)
    put(parent, "p", {class: "quiet"}, `The first ${shown.length} of ${rows.length} rows.`);
}

const colours = 8;
const colour = (i) => `var(--c${i % colours})`;
const dashes = ["", "7 4", "2 3", "9 3 2 3"];
const dashOf = (i) => dashes[(i + Math.floor(i / colours)) % dashes.length];  // no two of 32 look alike

function timeText(seconds) {
  for (const [factor, unit] of [[1, "s"], [1e3, "ms"], [1e6, "us"]])
    if (seconds * factor >= 1) return `${(seconds * factor).toPrecision(3)} ${unit}`;
  return `${(seconds * 1e9).toPrecision(3)} ns`;
}

function bytesText(bytes) {
  for (const [factor, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (bytes >= factor) return `${+(bytes / factor).toPrecision(3)} ${unit}`;
  return `${bytes} B`;
}

function key(parent, names, mark) {
  const list = put(parent, "ul", {class: "key"});
  names.forEach((name, i) => {
    const item = put(list, "li");
    const box = put(item, "svg", {width: 26, height: 12, "aria-hidden": "true"});
    mark(box, i);
    item.append(name);
  });
}

document.getElementById("title").textContent = "Terrace: " + parts.map((p) => p.name).join(", ");
