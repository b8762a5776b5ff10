"use strict";
const shown = {
  plan: (part, id) => { showMachine(part, id); showRules(part, id); showCall(part, id); },
  bench: showBench,
  "drop-in": showDropIn,
  tables: showTables,
};
parts.forEach((part, id) => shown[part.kind](part, id));
