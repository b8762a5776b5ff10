"use strict";
const parts = JSON.parse(document.getElementById("parts").textContent);
const main = document.getElementById("main");
const svgSpace = ["http:", "", "www.w3.org", "2000", "svg"].join("/");  // a name, which nothing is loaded from

function put(parent, name, attributes = {}, ...children) {
  const drawn = ["svg", "rect", "line", "path", "text", "circle"].includes(name);
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

function folded(parent, title) {
  const made = put(parent, "details", {class: "folded"});
  put(made, "summary", {}, title);
  return made;
}

function button(parent, text, act) {
  const made = put(parent, "button", {type: "button"}, text);
  made.addEventListener("click", act);
  return made;
}

// A drawing as wide as its place, made anew when that changes. draw(svg, width) fills it and returns its height.
function picture(parent, description, draw) {
  const place = put(parent, "div");
  const box = put(place, "svg", {role: "img", "aria-label": description});
  let drawn = 0;
  const redraw = () => {
    drawn = place.clientWidth;
    const width = Math.max(280, drawn);
    box.replaceChildren();
    const height = draw(box, width);
    for (const [key, value] of Object.entries({width, height, viewBox: `0 0 ${width} ${height}`}))
      box.setAttribute(key, value);
  };
  redraw();
  new ResizeObserver(() => { if (place.clientWidth !== drawn) redraw(); }).observe(place);
  return {box, redraw};
}

// What scrolls sideways can be reached by keys.
function table(parent, label, columns, rows, numbers = []) {
  const place = put(parent, "div", {class: "wide", role: "group", "aria-label": label, tabindex: 0});
  const made = put(place, "table");
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
  new ResizeObserver(() => {
    if (place.scrollWidth > place.clientWidth) place.setAttribute("tabindex", 0);
    else place.removeAttribute("tabindex");
  }).observe(place);
}

function key(parent, names, mark) {
  const list = put(parent, "ul", {class: "key"});
  names.forEach((name, i) => {
    const item = put(list, "li");
    mark(put(item, "svg", {width: 26, height: 12, "aria-hidden": "true"}), i);
    item.append(name);
  });
}

// What the pointer is on says `data-tip`. Escape takes it away.
const tip = put(document.body, "div", {class: "tip", hidden: ""});
for (const event of ["pointermove", "pointerdown"])
  document.addEventListener(event, (e) => {
    const text = e.target.dataset?.tip;
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const {offsetWidth: width, offsetHeight: height} = tip;
    tip.style.left = `${Math.max(4, Math.min(e.clientX + 12, innerWidth - width - 8))}px`;
    tip.style.top = `${e.clientY + 20 + height < innerHeight ? e.clientY + 18 : e.clientY - height - 10}px`;
  });
document.addEventListener("keydown", (e) => { if (e.key === "Escape") tip.hidden = true; });

const colours = 8;
const colour = (i) => `var(--c${i % colours})`;

function timeText(seconds, digits = (value) => value.toPrecision(3)) {
  for (const [factor, unit] of [[1, "s"], [1e3, "ms"], [1e6, "us"], [1e9, "ns"]])
    if (seconds * factor >= 1) return `${digits(seconds * factor)} ${unit}`;
  return seconds > 0 ? `${digits(seconds * 1e9)} ns` : "0 s";
}

function bytesText(bytes) {
  for (const [factor, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (bytes >= factor) return `${+(bytes / factor).toPrecision(3)} ${unit}`;
  return `${bytes} B`;
}

const clipped = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

// As few digits as say it: of axes.
const briefTime = (seconds) => timeText(seconds, (value) => +value.toPrecision(4));

// Round numbers from one to another, some `about` of them.
function ticks(from, to, about) {
  const least = (to - from) / about, digit = 10 ** Math.floor(Math.log10(least));
  const step = digit * [1, 2, 5, 10].find((n) => n * digit >= least);
  const all = [];
  for (let i = Math.ceil(from / step); i * step <= to * (1 + 1e-9); ++i) all.push(i * step);
  return all;
}

document.getElementById("title").textContent = "Terrace: " + parts.map((p) => p.name).join(", ");
