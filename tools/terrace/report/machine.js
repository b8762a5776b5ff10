"use strict";
// The machine as a tree. What is closed is not made, so that a machine of any size opens at once.

const shownAtOnce = 40;

function childrenOf(levels, l, domain) {
  const counts = levels[l].children;
  return Array.isArray(counts) ? counts[domain] : counts;
}

// First child of each domain, where these differ in size.
function firstChild(levels, l, domain) {
  const counts = levels[l].children;
  if (!Array.isArray(counts)) return counts * domain;
  if (!levels[l].first) {
    let sum = 0;
    levels[l].first = counts.map((n) => (sum += n) - n);
  }
  return levels[l].first[domain];
}

function domainName(machine, l, domain) {
  const level = machine.levels[l];
  if (l + 1 === machine.node_levels && machine.hosts) return machine.hosts[domain];
  if (level.names) return level.names[domain];
  return `${level.name} ${domain}`;
}

function rateOf(level, child) {
  return level.rates ? level.rates[child] : level.bandwidth;
}

function showDomain(machine, parent, l, domain) {
  const level = machine.levels[l], n = childrenOf(machine.levels, l, domain);
  const made = put(put(parent, "li"), "details");
  const line = put(made, "summary", {}, domainName(machine, l, domain));
  const below = l > 0 ? machine.levels[l - 1].name : "rank";
  let text = `: ${n} × ${below} over ${level.fabric}, ${level.bandwidth} a link`;
  if (l + 1 < machine.levels.length) text += `; its own link ${rateOf(machine.levels[l + 1], domain)}`;
  put(line, "span", {class: "quiet"}, text);
  if (level.assumed.length > 0) put(line, "span", {class: "mark"}, ` (assumed: ${level.assumed.join(", ")})`);
  made.addEventListener("toggle", () => {
    if (!made.open || made.dataset.made) return;
    made.dataset.made = "1";
    const list = put(made, "ul");
    showChildren(machine, made, list, l, firstChild(machine.levels, l, domain), 0, n);
  });
  return made;
}

function showChildren(machine, around, list, l, first, from, n) {
  const to = Math.min(n, from + shownAtOnce);
  for (let i = from; i < to; ++i) {
    if (l > 0) showDomain(machine, list, l - 1, first + i);
    else put(list, "li", {}, `rank ${first + i}`);
  }
  if (to === n) return;
  const more = put(around, "button", {type: "button"}, `${Math.min(shownAtOnce, n - to)} more of ${n - to}`);
  more.addEventListener("click", () => {
    more.remove();
    showChildren(machine, around, list, l, first, to, n);
  });
}

function showMachine(part, id) {
  const m = part.machine, made = section(`machine${id}`, "Machine");
  const about = [["ranks", m.ranks], ["shape", m.shape], ["plan", part.id], ["made by", part.made_by]];
  if (m.nics) about.push(["NICs", m.nics]);
  if (m.reduction) about.push(["a rank adds up", m.reduction]);
  if (m.cores) about.push(["cores that all ranks share", m.cores]);
  if (part.verified) about.push(["proved", part.verified]);
  facts(made, about);
  const starred = (level, what) => level[what] + (level.assumed.includes(what) ? " *" : "");
  table(made, "Levels", ["level", "domains", "fabric", "bandwidth of a link", "latency", "overhead"],
        m.levels.map((l) => [l.name, l.domains, l.fabric, starred(l, "bandwidth"), starred(l, "latency"),
                             starred(l, "overhead")]), [1, 3, 4, 5]);
  if (m.levels.some((l) => l.assumed.length > 0)) put(made, "p", {class: "quiet"}, "* assumed: no file says it.");
  put(made, "h3", {}, "Domains");
  const tree = put(put(made, "div", {class: "tree"}), "ul");
  showDomain(m, tree, m.levels.length - 1, 0).open = true;
  if (part.assumptions.length === 0) return;
  put(made, "h3", {}, "What is assumed");
  table(made, "Assumptions", ["figure", "of", "value", "what another value changes"],
        part.assumptions.map((a) => [a.what, a.level, a.value, a.change]));
}
