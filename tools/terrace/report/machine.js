"use strict";
// The machine as a tree. What is closed is not made, so that a machine of any size opens at once.

const shownAtOnce = 16;

// First child of each domain, where these differ in size.
function firstChildren(level) {
  if (!level.first) {
    let sum = 0;
    level.first = level.children.map((n) => (sum += n) - n);
  }
  return level.first;
}

function parentOf(level, child) {
  if (!Array.isArray(level.children)) return Math.floor(child / level.children);
  return firstChildren(level).findLastIndex((first) => first <= child);
}

function domainName(machine, l, domain) {
  const level = machine.levels[l];
  if (l + 1 === machine.node_levels && machine.hosts) return machine.hosts[domain];
  return level.names ? level.names[domain] : `${level.name} ${domain}`;
}

// "node 5, rack 1": the domains around a rank, but for the outermost, around all.
function placeOf(machine, rank) {
  const names = [];
  for (let l = 0, child = rank; l + 1 < machine.levels.length; ++l) {
    child = parentOf(machine.levels[l], child);
    names.push(domainName(machine, l, child));
  }
  return names.join(", ");
}

const starred = (level, what) => level[what] + (level.assumed.includes(what) ? " *" : "");

function showDomain(machine, parent, l, domain) {
  const level = machine.levels[l], differ = Array.isArray(level.children);
  const n = differ ? level.children[domain] : level.children;
  const made = put(put(parent, "li"), "details"), head = put(made, "summary", {}, domainName(machine, l, domain));
  const outer = machine.levels[l + 1];
  put(head, "span", {class: "quiet"}, `: ${n} × ${l === 0 ? "rank" : machine.levels[l - 1].name} over ` +
      `${level.fabric}, ${starred(level, "bandwidth")} a link` +
      (outer ? `; its own link ${outer.rates ? outer.rates[domain] : starred(outer, "bandwidth")}` : ""));
  made.addEventListener("toggle", () => {
    if (!made.open || made.dataset.made) return;
    made.dataset.made = "1";
    const list = put(made, "ul", {class: l === 0 ? "ranks" : ""});
    showChildren(machine, made, list, l, differ ? firstChildren(level)[domain] : n * domain, 0, n);
  });
  return made;
}

function showChildren(machine, around, list, l, first, from, n) {
  const to = Math.min(n, from + shownAtOnce);
  for (let i = from; i < to; ++i)
    if (l > 0) showDomain(machine, list, l - 1, first + i);
    else put(list, "li", {}, `rank ${first + i}`);
  if (to === n) return;
  const more = button(around, `${Math.min(shownAtOnce, n - to)} more of ${n - to}`, () => {
    more.remove();
    showChildren(machine, around, list, l, first, to, n);
  });
}

function showTree(machine, made) {
  put(made, "h3", {}, "Domains");
  const controls = put(made, "div", {class: "controls"}), tree = put(made, "ul", {class: "tree"});
  const all = (which, open) => { for (const each of tree.querySelectorAll(which)) each.open = open; };
  button(controls, "Open one level more", () => all("details:not([open])", true));
  button(controls, "Close all", () => all("details", false));
  showDomain(machine, tree, machine.levels.length - 1, 0).open = true;
}

function showAssumptions(rows, made) {
  if (rows.length === 0) return;
  put(made, "h3", {}, "What is assumed");
  table(made, "Assumptions", ["figure", "value", "if it is", "time", "most for"].slice(0, rows[0].length), rows,
        [1, 2, 3]);
  put(made, "p", {class: "quiet"}, rows[0].length > 2 ?
      "No file says these figures. With the other value, the call named last takes so many times as long." :
      "No file says these figures. What other values change is not priced of a machine so large.");
}

function showMachine(part, id) {
  const m = part.machine, made = section(`machine${id}`, "Machine");
  const about = [["ranks", m.ranks], ["shape", m.shape], ["plan", part.id], ["made by", part.made_by]];
  if (m.nics) about.push(["NICs", m.nics]);
  if (m.reduction) about.push(["a rank adds up", m.reduction]);
  for (const level of m.levels.filter((l) => l.devices)) about.push([`buffers on GPUs, ${level.name}`, level.devices]);
  if (part.verified) about.push(["proved", part.verified]);
  facts(made, about);
  table(made, "Levels", ["level", "domains", "fabric", "bandwidth of a link", "latency", "overhead"],
        m.levels.map((l) => [l.name, l.domains, l.fabric, starred(l, "bandwidth"), starred(l, "latency"),
                             starred(l, "overhead")]), [1, 3, 4, 5]);
  if (m.levels.some((l) => l.assumed.length > 0)) put(made, "p", {class: "quiet"}, "* assumed: no file says it.");
  showTree(m, made);
  showAssumptions(part.assumptions, made);
}
