"use strict";
// Times by size, on logarithmic scales.

function plotTimes(parent, title, sizes, series) {
  const width = 860, height = 380, left = 74, right = 28, top = 12, bottom = 40;
  const values = series.flatMap((s) => s.times).filter((t) => t > 0);
  if (values.length === 0 || sizes.length === 0) return;
  const low = Math.log10(Math.min(...values)), high = Math.log10(Math.max(...values));
  const first = Math.log2(sizes[0]), last = Math.log2(sizes[sizes.length - 1]);
  const part = (value, from, to) => to > from ? (value - from) / (to - from) : 0.5;
  const x = (bytes) => left + (width - left - right) * part(Math.log2(bytes), first, last);
  const y = (t) => height - bottom - (height - top - bottom) * part(Math.log10(t), low, high);
  const box = picture(parent, title, width, height, `${title}: the table below has the figures`);
  put(box, "rect", {class: "back", x: left, y: top, width: width - left - right, height: height - top - bottom});
  for (let p = Math.ceil(low); p <= Math.floor(high); ++p) {
    put(box, "line", {class: "grid", x1: left, x2: width - right, y1: y(10 ** p), y2: y(10 ** p)});
    put(box, "text", {x: left - 8, y: y(10 ** p) + 4, "text-anchor": "end"}, timeText(10 ** p));
  }
  const every = Math.max(1, Math.ceil(sizes.length / 9));
  sizes.forEach((bytes, i) => {
    if (i % every) return;
    put(box, "line", {class: "grid", x1: x(bytes), x2: x(bytes), y1: top, y2: height - bottom});
    put(box, "text", {x: x(bytes), y: height - bottom + 18, "text-anchor": "middle"}, bytesText(bytes));
  });
  put(box, "text", {class: "small", x: (left + width) / 2, y: height - 6, "text-anchor": "middle"}, "size");
  const stroke = (i) => ({class: "series", stroke: colour(i), "stroke-dasharray": dashOf(i)});
  series.forEach((s, i) => {
    let path = "", pen = "M";
    s.times.forEach((t, k) => {
      if (!(t > 0)) { pen = "M"; return; }
      path += `${pen}${x(sizes[k]).toFixed(1)} ${y(t).toFixed(1)}`;
      pen = "L";
    });
    put(box, "path", {...stroke(i), d: path});
    if (sizes.length > 40) return;
    s.times.forEach((t, k) => {
      if (t > 0) put(put(box, "circle", {cx: x(sizes[k]), cy: y(t), r: 3, fill: colour(i)}), "title", {},
                     `${s.name}, ${bytesText(sizes[k])}: ${timeText(t)}`);
    });
  });
  key(parent, series.map((s) => s.name), (svg, i) => put(svg, "path", {...stroke(i), d: "M0 6L26 6"}));
}

function timesTable(parent, title, sizes, series) {
  table(parent, title, ["size", ...series.map((s) => s.name)],
        sizes.map((bytes, k) => [bytesText(bytes), ...series.map((s) => s.times[k] > 0 ? timeText(s.times[k]) : null)]),
        series.map((_, i) => i + 1));
}

// One collective at a time, chosen from all.
function chosenOf(parent, id, names, show) {
  const place = put(null, "div");
  if (names.length > 1) {
    const controls = put(parent, "div", {class: "controls"});
    put(controls, "label", {for: `${id}-choice`}, "Collective");
    const choice = put(controls, "select", {id: `${id}-choice`});
    names.forEach((name, i) => put(choice, "option", {value: i}, name));
    choice.addEventListener("change", () => { place.replaceChildren(); show(place, +choice.value); });
  }
  parent.append(place);
  show(place, 0);
}

function showRules(part, id) {
  const made = section(`rules${id}`, "Rules by size");
  put(made, "p", {}, "Predicted times of the plan, beside its limit (the least that the links allow) and baselines.");
  chosenOf(made, `rules${id}`, part.collectives.map((c) => c.name), (place, i) => {
    const c = part.collectives[i];
    plotTimes(place, `Predicted times of ${c.name}`, c.sizes, c.series);
    timesTable(place, `Times of ${c.name}`, c.sizes, c.series);
    put(place, "h3", {}, "Rules");
    table(place, `Rules of ${c.name}`, ["up to", "stages", "lanes x chunk", "predicted", "at", "of limit"],
          c.rules.map((r) => [r.up_to, r.stages, r.lanes, r.predicted, r.at, r.of_limit]));
  });
}

// Measured times, beside those that a plan on the same page predicts.
function showBench(part, id) {
  const made = section(`results${id}`, `Measured: ${part.name}`);
  facts(made, part.facts);
  chosenOf(made, `results${id}`, part.collectives.map((c) => c.name), (place, i) => {
    const c = part.collectives[i], series = c.series.map((s) => ({...s}));
    const plan = parts.find((p) => p.kind === "plan" && (p.id === part.plan_id || part.plan_id === "-"));
    const predicted = plan && plan.collectives.find((p) => p.name === c.name);
    if (predicted) {
      const at = (of, bytes) => {  // between two sizes, by a straight line of the logarithms
        const k = of.sizes.findIndex((size) => size >= bytes);
        if (k < 0 || (k === 0 && of.sizes[0] !== bytes)) return null;
        const t = of.series[0].times;
        if (of.sizes[k] === bytes) return t[k];
        const part = Math.log(bytes / of.sizes[k - 1]) / Math.log(of.sizes[k] / of.sizes[k - 1]);
        return Math.exp(Math.log(t[k - 1]) + part * Math.log(t[k] / t[k - 1]));
      };
      series.push({name: `predicted by ${plan.name}`, times: c.sizes.map((bytes) => at(predicted, bytes))});
    }
    plotTimes(place, `Measured times of ${c.name}`, c.sizes, series);
    timesTable(place, `Times of ${c.name}`, c.sizes, series);
    put(place, "h3", {}, "All rows");
    table(place, `Rows of ${c.name}`, part.columns, c.rows, [2, 3, 4, 5]);
  });
}

function showFigures(parent, tables) {
  for (const t of tables) {
    put(parent, "h3", {}, t.name.replaceAll("_", " "));
    table(parent, t.name, t.columns.map((c) => c.replaceAll("_", " ")), t.rows, t.numbers);
  }
}

function showTables(part, id) {
  const made = section(`tables${id}`, part.name);
  facts(made, part.facts);
  showFigures(made, part.tables);
}

// Of a program under the drop-in.
function showDropIn(part, id) {
  const made = section(`calls${id}`, `Calls of a program: ${part.name}`);
  put(made, "p", {}, part.summary);
  facts(made, part.facts);
  put(made, "h3", {}, "Calls, those that took longest first");
  table(made, "Calls", part.columns, part.rows, part.numbers);
  const all = put(made, "details");
  put(all, "summary", {}, "All figures");
  showFigures(all, part.tables);
}
