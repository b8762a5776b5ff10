"use strict";
// One call: stages over the levels and loads of links.

const stageName = (stages, i) => `${i + 1}. ${stages[i].text}`;

function showStages(part, made) {
  const levels = part.machine.levels, stages = part.call.stages, row = 40;
  picture(made, "Stages over the levels of the machine: the table below says the same", (box, width) => {
    const left = width < 600 ? 76 : 150, column = (width - left) / stages.length;
    levels.forEach((level, l) => {
      const y = row * (levels.length - 1 - l);
      put(box, "rect", {class: "back", x: left, y: y + 2, width: width - left, height: row - 4});
      put(box, "text", {x: left - 10, y: y + 18, "text-anchor": "end"}, level.name);
      put(box, "text", {class: "small", x: left - 10, y: y + 32, "text-anchor": "end"}, level.bandwidth);
    });
    stages.forEach((s, i) => {
      const top = row * (levels.length - 1 - s.last), high = row * (s.last - s.first + 1);
      put(box, "rect", {class: "stage", x: left + column * i + 6, y: top + 6, width: column - 12, height: high - 12,
                        rx: 5, stroke: colour(i), "data-tip": `${stageName(stages, i)}: ${s.time} a chunk`});
      put(box, "text", {x: left + column * i + 16, y: top + high / 2 + 4},
          column > 95 ? `${i + 1}. ${s.time}` : `${i + 1}.`);
    });
    return row * levels.length + 8;
  });
  table(made, "Stages", ["stage", "time of a chunk", "start-ups in it"],
        stages.map((s, i) => [stageName(stages, i), s.time, s.startups]), [1, 2]);
}

function showLoads(call, made) {
  put(made, "h3", {}, "Links");
  put(made, "p", {class: "quiet"},
      "The busiest link of each level, in its busier direction, over the predicted time.");
  const bar = (part) => {
    const box = put(null, "svg", {width: 160, height: 14, viewBox: "0 0 160 14", preserveAspectRatio: "none",
                                  "aria-hidden": "true"});
    put(box, "rect", {class: "back", width: 160, height: 14});
    put(box, "rect", {width: 160 * Math.min(1, part), height: 14, fill: colour(0)});
    return box;
  };
  table(made, "Loads of links", ["link", "rate", "bytes", "busy", ""],
        call.links.map((l) => [l.name, l.rate, l.bytes, `${Math.round(100 * l.part)} %`, bar(l.part)]), [1, 2, 3]);
}

function showCall(part, id) {
  const call = part.call, made = section(`call${id}`, `One call: ${call.collective} of ${call.bytes}`);
  facts(made, [["predicted", call.predicted], ["limit", call.limit], ["of limit", call.of_limit]]);
  showStages(part, made);
  showLoads(call, made);
  showTimeline(part, made, id);
}
