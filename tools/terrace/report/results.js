"use strict";
// Of programs that ran: terrace-bench, the drop-in, and whatever else writes JSON.

function showBench(part, id) {
  const made = section(`results${id}`, `Measured: ${part.name}`);
  facts(made, part.facts);
  for (const note of part.notes) put(made, "p", {class: "quiet"}, note);
  chosenOf(made, `results${id}`, part.collectives, (place, c) => {
    plotTimes(place, "Measured", c);
    const {columns, rows} = c.comparison;
    if (rows.length > 0) {
      table(place, `Comparison of ${c.name}`, columns, rows, columns.map((_, i) => i).slice(1));
      put(place, "p", {class: "quiet"}, "Medians; \"half of all\" lie between the quartiles. The columns on the right " +
          "say how many times as long others took, iteration by iteration of the same run. Measured is what the plan says, " +
          "which terrace-bench calls hierarchical.");
    }
    const all = folded(place, "All times");
    timesTable(all, "Measured", c);
    table(all, `Rows of ${c.name}`, part.columns, c.rows, part.numbers);
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

// Rows that took longest: [name, seconds by Terrace, seconds by MPI].
function showShares(parent, rows) {
  const row = 24, most = Math.max(...rows.map(([, ours, mpi]) => ours + mpi));
  picture(parent, "Who took the time of which calls: the table below has the figures", (box, width) => {
    const narrow = width < 600, left = narrow ? 0 : 260, above = narrow ? 16 : 0, full = width - left - 70;
    rows.forEach(([name, ours, mpi], i) => {
      const y = i * (row + above) + above;
      put(box, "text", narrow ? {x: 0, y: y - 3} : {x: left - 10, y: y + 13, "text-anchor": "end"}, clipped(name, 40));
      const part = (seconds) => most > 0 ? full * seconds / most : 0;
      put(box, "rect", {x: left, y, width: part(ours), height: row - 6, fill: colour(0),
                        "data-tip": `${name}: ${timeText(ours)} by Terrace`});
      put(box, "rect", {x: left + part(ours), y, width: part(mpi), height: row - 6, fill: colour(1),
                        "data-tip": `${name}: ${timeText(mpi)} by MPI`});
      put(box, "text", {x: left + part(ours + mpi) + 8, y: y + 13}, timeText(ours + mpi));
    });
    return rows.length * (row + above);
  });
  key(parent, ["by Terrace", "by MPI"], (svg, i) => put(svg, "rect", {width: 26, height: 12, fill: colour(i)}));
}

function showDropIn(part, id) {
  const made = section(`calls${id}`, `Calls of a program: ${part.name}`);
  put(made, "p", {}, part.summary);
  facts(made, part.facts);
  put(made, "h3", {}, "Calls, those that took longest first");
  showShares(made, part.shares);
  table(made, "Calls", part.columns, part.rows, part.numbers);
  showFigures(folded(made, "All figures"), part.tables);
}
