"use strict";
// One call: stages over the levels, loads of links, and the timeline.

function showStages(part, made) {
  const levels = part.machine.levels, stages = part.call.stages;
  const row = 40, left = 150, width = 860, height = row * levels.length + 8, column = (width - left) / stages.length;
  const box = picture(made, "Stages over levels", width, height,
                      "Stages over the levels of the machine: the table below says the same");
  levels.forEach((level, l) => {
    const y = row * (levels.length - 1 - l);
    put(box, "rect", {class: "back", x: left, y: y + 2, width: width - left, height: row - 4});
    put(box, "text", {x: left - 10, y: y + 18, "text-anchor": "end"}, level.name);
    put(box, "text", {class: "small", x: left - 10, y: y + 32, "text-anchor": "end"}, level.bandwidth);
  });
  stages.forEach((s, i) => {
    const top = row * (levels.length - 1 - s.last), high = row * (s.last - s.first + 1);
    put(box, "rect", {x: left + column * i + 6, y: top + 6, width: column - 12, height: high - 12, rx: 5, fill: "none",
                      stroke: colour(i), "stroke-width": 2});
    put(box, "text", {x: left + column * i + 16, y: top + high / 2 + 4}, `${i + 1}. ${s.time}`);
  });
  table(made, "Stages", ["", "stage", "time of a chunk", "start-ups in it"],
        stages.map((s, i) => [i + 1, s.text, s.time, s.startups]), [2, 3]);
}

function showLoads(call, made) {
  put(made, "h3", {}, "Links");
  put(made, "p", {class: "quiet"},
      "The busiest link of each level, in its busier direction, over the predicted time.");
  const bar = (part) => {
    const box = put(null, "svg", {width: 160, height: 14, viewBox: "0 0 160 14", "aria-hidden": "true"});
    put(box, "rect", {class: "back", width: 160, height: 14});
    put(box, "rect", {width: 160 * Math.min(1, part), height: 14, fill: colour(0)});
    return box;
  };
  table(made, "Loads of links", ["link", "rate", "bytes", "busy", ""],
        call.links.map((l) => [l.name, l.rate, l.bytes, `${Math.round(100 * l.part)} %`, bar(l.part)]), [1, 2, 3]);
}

function showTimeline(part, made, id) {
  const call = part.call, t = call.timeline;
  put(made, "h3", {}, "Timeline, simulated");
  if (!t) {
    put(made, "p", {}, "The machine has more steps than a simulation takes.");
    return;
  }
  put(made, "p", {class: "quiet"},
      `${timeText(t.time / 1e6)}, ${t.chunks} chunks in ${t.lanes} lanes; ${t.ranks.length}` +
      ` of ${part.machine.ranks} ranks.` + (t.left_out ? ` ${t.left_out} spans are left out.` : ""));
  const lanes = Math.min(t.lanes, 4), lane = 12, gap = 8, left = 150, width = 1000, strip = 34;
  const rank = lanes * lane + gap, under = rank * t.ranks.length, right = width - 10;
  const height = under + (strip + gap) * t.links.length + 22;
  const box = picture(made, "Timeline", width, height, "Timeline: the slider below reads it out");
  key(made, call.stages.map((s) => s.text), (svg, i) => put(svg, "rect", {width: 26, height: 12, fill: colour(i)}));

  const controls = put(made, "div", {class: "controls"});
  put(controls, "label", {for: `time${id}`}, "Time");
  const slider = put(controls, "input", {type: "range", id: `time${id}`, min: 0, max: 1000, value: 0});
  const play = put(controls, "button", {type: "button"}, "Play");
  // Many chunks are drawn a part of the call at a time, some of each lane.
  const parts = [1, 4, 16, 64].filter((n) => n === 1 || t.chunks >= 4 * n * t.lanes);
  put(controls, "label", {for: `part${id}`}, "Shown");
  const choice = put(controls, "select", {id: `part${id}`});
  for (const n of parts) put(choice, "option", {value: n}, n === 1 ? "the whole call" : `1/${n} of the call`);
  choice.value = parts[parts.length - 1];
  const said = put(made, "div", {role: "status"});

  let from = 0, to = t.time;  // what is drawn
  const inside = (us) => Math.min(to, Math.max(from, us));
  const x = (us) => left + (right - left) * (to > from ? (inside(us) - from) / (to - from) : 0);
  const drawSpans = () => {
    t.ranks.forEach((r, i) => {
      put(box, "rect", {class: "back", x: left, y: i * rank, width: right - left, height: rank - gap});
      put(box, "text", {x: left - 10, y: i * rank + rank / 2, "text-anchor": "end"}, `rank ${r}`);
    });
    const drawn = t.spans.filter((s) => s[1] < lanes && s[5] > from && s[4] < to);
    for (const [row, l, stage, down, begin, end, chunk] of drawn) {
      const span = put(box, "rect", {x: x(begin), y: row * rank + l * lane + 0.5,
                                     width: Math.max(0.4, x(end) - x(begin) - 0.4), height: lane - 1,
                                     fill: colour(stage), "fill-opacity": down ? 0.5 : 0.95});
      if (drawn.length < 2000)
        put(span, "title", {}, `chunk ${chunk}: ${call.stages[stage].text}${down ? ", down" : ""}, ` +
            `${timeText(begin / 1e6)} to ${timeText(end / 1e6)}`);
    }
  };
  const drawLinks = () => t.links.forEach((l, i) => {
    const y = under + i * (strip + gap);
    put(box, "rect", {class: "back", x: left, y, width: right - left, height: strip});
    put(box, "text", {x: left - 10, y: y + 15, "text-anchor": "end"}, l.name);
    put(box, "text", {class: "small", x: left - 10, y: y + 29, "text-anchor": "end"}, `${l.rate}, ${l.busy} % busy`);
    let path = `M${left} ${y + strip}`;
    l.history.forEach((percent, k) => {
      const begin = k * t.interval, end = Math.min(t.time, begin + t.interval);
      if (end <= from || begin >= to) return;
      const high = (y + strip - strip * percent / 100).toFixed(1);
      path += `L${x(begin).toFixed(1)} ${high}L${x(end).toFixed(1)} ${high}`;
    });
    put(box, "path", {d: `${path}L${right} ${y + strip}Z`, fill: colour(4), "fill-opacity": 0.8});
  });
  let now = null;
  const draw = () => {
    box.replaceChildren();
    drawSpans();
    drawLinks();
    put(box, "text", {x: left, y: height - 6}, timeText(from / 1e6));
    put(box, "text", {x: right, y: height - 6, "text-anchor": "end"}, timeText(to / 1e6));
    now = put(box, "line", {class: "now", y1: 0, y2: height - 20});
  };
  const show = () => {
    const us = t.time * slider.value / 1000, length = t.time / choice.value;
    const begin = length * Math.min(choice.value - 1, Math.floor(us / length));
    if (!now || begin !== from || begin + length !== to) {
      from = begin;
      to = begin + length;
      draw();
    }
    slider.setAttribute("aria-valuetext", timeText(us / 1e6));
    now.setAttribute("x1", x(us));
    now.setAttribute("x2", x(us));
    const doing = t.ranks.map((r, row) => {
      const names = new Set(t.spans.filter((s) => s[0] === row && s[4] <= us && us < s[5])
                                   .map((s) => call.stages[s[2]].text + (s[3] ? " down" : "")));
      return [`rank ${r}`, names.size ? [...names].join("; ") : "waits"];
    });
    const loads = t.links.map((l) => [l.name, `${l.history[Math.floor(us / t.interval)] ?? 0} % busy`]);
    said.replaceChildren();
    put(said, "p", {}, `At ${timeText(us / 1e6)}:`);
    facts(said, [...doing, ...loads]);
  };
  slider.addEventListener("input", show);
  choice.addEventListener("change", show);
  slider.step = 1 / parts[parts.length - 1];
  let timer = null;
  play.addEventListener("click", () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
    if (+slider.value >= 1000) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = +slider.value + 4 / choice.value;
      show();
      if (+slider.value >= 1000) play.click();
    }, 40);
  });
  show();
}

function showCall(part, id) {
  const call = part.call, made = section(`call${id}`, `One call: ${call.collective} of ${call.bytes}`);
  facts(made, [["predicted", call.predicted], ["limit", call.limit], ["of limit", call.of_limit]]);
  showStages(part, made);
  showLoads(call, made);
  showTimeline(part, made, id);
}

parts.forEach((part, id) => {
  if (part.kind === "plan") {
    showMachine(part, id);
    showRules(part, id);
    showCall(part, id);
  } else if (part.kind === "bench") {
    showBench(part, id);
  } else if (part.kind === "drop-in") {
    showDropIn(part, id);
  } else {
    showTables(part, id);
  }
});
