"use strict";
// The timeline of a call: bars of ranks, loads of links, and a time in it that the reader moves.

const barOf = ([row, lane, stage, down, begin, end, chunk]) => ({row, lane, stage, down, begin, end, chunk});

// Below the pictures, what happens at one time: rows of ranks and links whose texts `say` replaces.
function momentOf(parent, timeline, machine) {
  const said = put(parent, "p", {role: "status"});
  const made = put(put(parent, "div", {class: "wide"}), "table", {class: "moment"});
  const cells = [...timeline.ranks.map((r) => [`rank ${r}`, placeOf(machine, r)]),
                 ...timeline.links.map((l) => [l.name, l.rate])].map(([name, about]) => {
    const line = put(made, "tr");
    put(line, "th", {scope: "row"}, name);
    put(line, "td", {class: "quiet"}, about);
    return put(line, "td");
  });
  return (time, texts) => {
    said.textContent = `At ${time}:`;
    texts.forEach((text, i) => { cells[i].textContent = text; });
  };
}

function showTimeline(part, made, id) {
  const {call, machine} = part, t = call.timeline;
  put(made, "h3", {}, "Timeline, simulated");
  if (call.note) put(made, "p", {}, call.note);
  if (!t) return;
  const bars = t.spans.map(barOf), last = t.time;
  const events = [...new Set([0, last, ...bars.flatMap((b) => [b.begin, b.end])])].sort((a, b) => a - b);
  const time = (us) => timeText(us / 1e6, (value) => value.toPrecision(4));
  const name = (bar) => stageName(call.stages, bar.stage) + (bar.down ? ", down" : "");
  const fill = (stage, down) => down ? `color-mix(in srgb, ${colour(stage)} 45%, var(--page))` : colour(stage);
  put(made, "p", {}, `The call takes ${time(last)}: ${t.chunks} ${t.chunks === 1 ? "chunk" : "chunks"} in ` +
      `${t.lanes} ${t.lanes === 1 ? "lane" : "lanes"}. Shown: ${t.ranks.length} of ${machine.ranks} ranks` +
      (t.left_out ? `, without ${t.left_out} bars at the end.` : "."));
  put(made, "p", {class: "quiet"}, "A bar is the time that one chunk spends in one stage on that rank, from its first " +
      "instruction to its last, waiting included; each lane of a rank has a row. Where bars of a lane overlap, the later " +
      "one is in front. Below the ranks stands how busy the busiest link of each level is. A click or a drag in the " +
      "picture moves the time, as the slider does.");

  // ---- the picture ----
  let us = 0, from = 0, to = last;  // the time, and what is drawn around it
  let left = 0, right = 0, now = null;
  const lane = Math.max(5, Math.min(12, Math.floor(48 / t.lanes))), strip = 34, gap = 8;
  const x = (at) => left + (right - left) * (Math.min(to, Math.max(from, at)) - from) / (to - from);
  const row = (box, y, high, narrow, name, about) => {
    put(box, "rect", {class: "back", x: left, y, width: right - left, height: high});
    if (narrow) return put(box, "text", {x: 0, y: y - 5}, `${name}: ${about}`);
    put(box, "text", {x: left - 10, y: y + high / 2 - 2, "text-anchor": "end"}, name);
    put(box, "text", {class: "small", x: left - 10, y: y + high / 2 + 12, "text-anchor": "end"}, clipped(about, 24));
  };
  const drawBars = (box, y, of) => {
    for (const bar of bars)
      if (bar.row === of && bar.end > from && bar.begin < to)
        put(box, "rect", {x: x(bar.begin), y: y + bar.lane * lane + 0.5, height: lane - 1,
                          width: Math.max(0.4, x(bar.end) - x(bar.begin) - 0.4), fill: fill(bar.stage, bar.down),
                          "data-tip": `chunk ${bar.chunk} on rank ${t.ranks[of]}: ${name(bar)}, ` +
                                      `${time(bar.begin)} to ${time(bar.end)}`});
  };
  const drawLoad = (box, y, link) => {
    let path = "";
    link.history.forEach((percent, k) => {
      const begin = k * t.interval, end = Math.min(last, begin + t.interval);
      if (end <= from || begin >= to) return;
      const high = (y + strip - strip * percent / 100).toFixed(1);
      path += `M${x(begin).toFixed(1)} ${y + strip}V${high}H${x(end).toFixed(1)}V${y + strip}`;
    });
    put(box, "path", {d: path, fill: colour(4)});
  };
  const {box, redraw} = picture(made, "Timeline: the slider below moves through it, and the table says what happens",
                                (box, width) => {
    const narrow = width < 600, above = narrow ? 18 : 0, ranks = Math.max(t.lanes * lane, narrow ? 0 : 28);
    [left, right] = [narrow ? 0 : 170, width - 8];
    let y = 0;
    t.ranks.forEach((r, i) => {
      row(box, y + above, ranks, narrow, `rank ${r}`, placeOf(machine, r));
      drawBars(box, y + above + (ranks - t.lanes * lane) / 2, i);
      y += above + ranks + gap;
    });
    for (const link of t.links) {
      row(box, y + above, strip, narrow, link.name, `${link.rate}, ${link.busy} % busy`);
      drawLoad(box, y + above, link);
      y += above + strip + gap;
    }
    for (const at of ticks(from, to, Math.floor((right - left) / 110))) {
      put(box, "line", {class: "grid", x1: x(at), x2: x(at), y1: y - gap, y2: y - gap + 5});
      const anchor = x(at) > width - 30 ? {x: width, "text-anchor": "end"} :
                     {x: x(at), "text-anchor": x(at) < 30 ? "start" : "middle"};
      put(box, "text", {...anchor, y: y + 12}, briefTime(at / 1e6));
    }
    now = put(box, "line", {class: "now", x1: x(us), x2: x(us), y1: 0, y2: y - gap + 5});
    return y + 18;
  });
  const downs = bars.some((b) => b.down) ? [1] : [];
  key(made, [...call.stages.map((_, i) => stageName(call.stages, i)), ...downs.map(() => "fainter: the same, down")],
      (svg, i) => put(svg, "rect", {width: 26, height: 12, fill: fill(i % call.stages.length, i >= call.stages.length)}));

  // ---- moving through it ----
  const controls = put(made, "div", {class: "controls"});
  put(controls, "label", {for: `time${id}`}, "Time");
  const slider = put(controls, "input", {type: "range", id: `time${id}`, min: 0, max: last, value: 0});
  let timer = null;
  const play = button(controls, "Play", () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
    if (us >= last) show(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      show(us + (to - from) / 250);
      if (us >= last) play.click();
    }, 40);
  });
  button(controls, "Event before", () => show(events.findLast((e) => e < us) ?? 0));
  button(controls, "Next event", () => show(events.find((e) => e > us) ?? last));
  // Many chunks are drawn a part of the call at a time, some of each lane.
  const shares = [1, 4, 16, 64].filter((n) => n === 1 || t.chunks >= 4 * n * t.lanes);
  put(controls, "label", {for: `part${id}`}, "Shown");
  const choice = put(controls, "select", {id: `part${id}`});
  for (const n of shares) put(choice, "option", {value: n}, n === 1 ? "the whole call" : `1/${n} of the call`);
  choice.value = shares[shares.length - 1];
  const say = momentOf(made, t, machine);
  const doing = (rank) => {
    const chunks = new Map();
    for (const bar of bars)
      if (bar.row === rank && bar.begin <= us && us < bar.end)
        chunks.set(name(bar), [...(chunks.get(name(bar)) ?? []), bar.chunk]);
    return chunks.size === 0 ? "nothing: it waits, or is done" :
        [...chunks].map(([stage, of]) => `${stage}: chunk ${of.join(", ")}`).join("; ");
  };
  function show(at) {
    us = Math.min(last, Math.max(0, at));
    const length = last / choice.value, begin = length * Math.min(choice.value - 1, Math.floor(us / length));
    if (begin !== from || begin + length !== to) {
      [from, to] = [begin, begin + length];
      redraw();
    }
    slider.step = length / 200;
    slider.value = us;
    slider.setAttribute("aria-valuetext", time(us));
    now.setAttribute("x1", x(us));
    now.setAttribute("x2", x(us));
    say(time(us), [...t.ranks.map((_, i) => doing(i)),
                   ...t.links.map((l) => `${l.history[Math.floor(us / t.interval)] ?? 0} % busy`)]);
  }
  slider.addEventListener("input", () => show(+slider.value));
  choice.addEventListener("change", () => show(us));
  const follow = (e) => {
    if (!(e.buttons & 1)) return;
    box.setPointerCapture(e.pointerId);
    const part = (e.clientX - box.getBoundingClientRect().left - left) / (right - left);
    show(from + (to - from) * Math.min(0.9999, Math.max(0, part)));  // of what is drawn
  };
  for (const event of ["pointerdown", "pointermove"]) box.addEventListener(event, follow);
  box.classList.add("timeline");
  show(0);
}
