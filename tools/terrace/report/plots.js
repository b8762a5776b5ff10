"use strict";
// Times by size, and how near they are to the limit.

const dashes = ["7 4", "2 3", "9 3 2 3", "14 4"];

// The plan's line alone is solid, with its prediction in the same colour; the limit is grey. No two of 24 others look
// alike.
function styleOf(line, others) {
  const kind = {plan: [0, ""], predicted: [0, "3 4"], limit: [7, "6 3"]}[line.role] ??
               [1 + others % 6, dashes[(others + Math.floor(others / 6)) % dashes.length]];
  return {class: "series", stroke: colour(kind[0]), "stroke-dasharray": kind[1]};
}

function styled(lines) {
  let others = 0;
  return lines.map((line) => ({...line, style: styleOf(line, line.role === "other" ? others++ : 0)}));
}

// Lines over sizes, these on a logarithmic scale. scale: {part, ticks} of values, text(value)
function plot(parent, title, sizes, lines, scale) {
  const left = 62, right = 16, top = 30, bottom = 24, height = 330;
  picture(parent, `${title}: the table below has the figures`, (box, width) => {
    const inner = width - left - right, high = height - top - bottom;
    const first = Math.log2(sizes[0]), last = Math.log2(sizes[sizes.length - 1]);
    const x = (bytes) => left + inner * (last > first ? (Math.log2(bytes) - first) / (last - first) : 0.5);
    const y = (value) => top + high * (1 - scale.part(value));
    put(box, "text", {class: "title", x: 0, y: 15}, title);
    put(box, "rect", {class: "back", x: left, y: top, width: inner, height: high});
    for (const value of scale.ticks) {
      put(box, "line", {class: "grid", x1: left, x2: left + inner, y1: y(value), y2: y(value)});
      put(box, "text", {x: left - 7, y: y(value) + 4, "text-anchor": "end"}, scale.text(value));
    }
    const every = Math.ceil(sizes.length / Math.floor(inner / 62));
    sizes.forEach((bytes, i) => {
      if (i % every) return;
      put(box, "line", {class: "grid", x1: x(bytes), x2: x(bytes), y1: top, y2: top + high});
      const anchor = x(bytes) > width - 28 ? {x: width, "text-anchor": "end"} : {x: x(bytes), "text-anchor": "middle"};
      put(box, "text", {...anchor, y: height - 6}, bytesText(bytes));
    });
    for (const line of [...lines].reverse()) {  // the plan's, which is the first, in front
      let path = "", pen = "M";
      line.values.forEach((value, k) => {
        if (value > 0) path += `${pen}${x(sizes[k]).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = value > 0 ? "L" : "M";
      });
      put(box, "path", {...line.style, d: path});
    }
    for (const line of sizes.length > 40 ? [] : lines)
      line.values.forEach((value, k) => {
        if (value > 0)
          put(box, "circle", {class: "point", cx: x(sizes[k]), cy: y(value), r: 3, fill: line.style.stroke,
                              "data-tip": `${line.name}, ${bytesText(sizes[k])}: ${scale.text(value)}`});
      });
    return height;
  });
}

function logarithmic(values) {
  const low = Math.log10(Math.min(...values)) - 0.05, high = Math.log10(Math.max(...values)) + 0.05;
  const all = [];
  for (let p = Math.floor(low); p <= high; ++p)
    for (const n of high - low > 2 ? [1] : [1, 2, 5]) all.push(n * 10 ** p);
  return {part: (value) => (Math.log10(value) - low) / (high - low), text: briefTime,
          ticks: all.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high)};
}

// What is above 150 % is drawn there.
function percents(values) {
  const high = Math.min(150, Math.max(105, 1.05 * Math.max(...values)));
  return {part: (value) => Math.min(1, value / high), text: (value) => `${Math.round(value)} %`, ticks: ticks(0, high, 6)};
}

// of: {name, sizes, series, limits}
function plotTimes(parent, kind, of) {
  const ratios = of.series.map((s) => s.times.map((t, k) => t > 0 && of.limits[k] > 0 ? 100 * of.limits[k] / t : null));
  const known = (lines) => lines.flatMap((line) => line.values.filter((value) => value > 0));
  const times = styled([...of.series, {name: "limit", role: "limit", times: of.limits}])
      .map((s) => ({...s, values: s.times})).filter((line) => known([line]).length > 0);
  if (times.length === 0) return;
  const pair = put(parent, "div", {class: "pair"});
  plot(pair, `${kind} time of ${of.name}`, of.sizes, times, logarithmic(known(times)));
  const near = styled(of.series).map((s, i) => ({...s, values: ratios[i]}));
  if (known(near).length > 0)
    plot(pair, `${kind}: part of the limit's speed`, of.sizes, near, percents(known(near)));
  key(parent, times.map((line) => line.name), (svg, i) => put(svg, "path", {...times[i].style, d: "M0 6L26 6"}));
}

function timesTable(parent, kind, of) {
  const time = (t) => t === null ? null : timeText(t), limited = of.limits.some((t) => t > 0);
  const columns = of.series.flatMap((s) => s.role === "plan" && limited ? [s.name, "of limit"] : [s.name]);
  const cells = (s, k) => s.role === "plan" && limited ?
      [time(s.times[k]), s.times[k] > 0 ? `${Math.round(100 * of.limits[k] / s.times[k])} %` : null] :
      [time(s.times[k])];
  table(parent, `${kind} times of ${of.name}`, ["size", ...columns, ...(limited ? ["limit"] : [])],
        of.sizes.map((bytes, k) => [bytesText(bytes), ...of.series.flatMap((s) => cells(s, k)),
                                    ...(limited ? [time(of.limits[k])] : [])]),
        [...columns, "limit"].map((_, i) => i + 1));
}

// One collective at a time, chosen from all.
function chosenOf(parent, id, all, show) {
  const place = put(null, "div");
  if (all.length > 1) {
    const controls = put(parent, "div", {class: "controls"});
    put(controls, "label", {for: `${id}-choice`}, "Collective");
    const choice = put(controls, "select", {id: `${id}-choice`});
    all.forEach((of, i) => put(choice, "option", {value: i}, of.name));
    choice.addEventListener("change", () => { place.replaceChildren(); show(place, all[choice.value]); });
  }
  parent.append(place);
  if (all.length > 0) show(place, all[0]);
}

function showRules(part, id) {
  const made = section(`rules${id}`, "Rules by size");
  const alone = part.collectives.every((c) => c.series.length === 1);
  put(made, "p", {}, "Predicted times of the plan, beside the limit (the least that the links allow)" +
      (alone ? ". Baselines are not priced on a machine so large." : " and baselines."));
  chosenOf(made, `rules${id}`, part.collectives, (place, c) => {
    plotTimes(place, "Predicted", c);
    timesTable(place, "Predicted", c);
    put(place, "h3", {}, "Rules");
    table(place, `Rules of ${c.name}`, ["up to", "stages", "lanes x chunk", "predicted", "at", "of limit"],
          c.rules.map((r) => [r.up_to, r.stages, r.lanes, r.predicted, r.at, r.of_limit]), [0, 5]);
    const help = folded(place, "How to read a rule");
    put(help, "p", {}, "Stages run from left to right, from the inside of the machine to its outside. " +
        "\"node:4 scatter direct\" is one: groups of 4 ranks in each node, which end with the mode scatter, by the " +
        "algorithm direct. In the mode scatter each rank of a group has its share of the sum, in root one rank has " +
        "everything, in replicate all have. Then results go back down the stages in the reverse order.");
    put(help, "p", {}, "\"2 x 512 KiB\": the message is cut into chunks of 512 KiB, two of which are in flight at " +
        "once, one in each lane.");
  });
}
