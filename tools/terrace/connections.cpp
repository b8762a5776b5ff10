#include "tools/terrace/explain_parts.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "planner/simulate/rank_schedules.hpp"
#include "tools/common/table.hpp"

namespace terrace::detail {

namespace {

constexpr int most_looked_at = 64;

using rank_lists = std::vector<std::vector<int>>;  // by rank looked at: others, some more than once

// All ranks, or some at different places of their nodes, with the first and the last.
std::vector<int> looked_at(int ranks) {
    std::vector<int> some(at(std::min(ranks, most_looked_at)));
    for (std::size_t i = 0; i < some.size(); ++i)
        some[i] =
            ranks <= most_looked_at ? static_cast<int>(i) : static_cast<int>(i) * (ranks - 1) / (most_looked_at - 1);
    return some;
}

// With collectives that have a root, rank 0 is it.
rank_lists partners_by(const plan_data& plan, collective what, const std::vector<int>& some) {
    const hierarchy& machine = plan.machine;
    const std::int64_t slot = slot_bytes(plan);
    rank_lists found(some.size());
    for (const rule& r : plan.rules.at(what)) {
        const slicing chunks = sim::slices_of(machine, r, what, r.at, slot);
        const sim::rank_schedules all(machine, r, what, chunks.chunks > 1 ? chunks.chunk : chunks.tail, slot);
        for (std::size_t n = 0; n < some.size(); ++n)
            for (const instr& i : all.of(some[n]).instrs)
                if (i.what == action::send || i.what == action::recv || i.what == action::recv_reduce)
                    found[n].push_back(i.peer);
    }
    return found;
}

// As call_check compares.
rank_lists partners_of_comparisons(int ranks, const std::vector<int>& some) {
    rank_lists found(some.size());
    for (std::size_t n = 0; n < some.size(); ++n)
        for (int distance = 1; distance < ranks; distance *= 2)
            for (const int other : {some[n] + distance, some[n] - distance}) found[n].push_back(wrap(other, ranks));
    return found;
}

int node_of(const hierarchy& machine, int rank) { return machine.shape.domain_of(machine.node_levels() - 1, rank); }

void add_row(table& rows, const std::string& name, rank_lists& partners) {
    std::vector<std::size_t> counts;
    for (std::vector<int>& of : partners) {
        std::sort(of.begin(), of.end());
        of.erase(std::unique(of.begin(), of.end()), of.end());
        counts.push_back(of.size());
    }
    const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
    rows.add({name, fmt::format("{}", *std::max_element(counts.begin(), counts.end())),
              fmt::format("{:.1f}", sum / static_cast<double>(counts.size()))});
}

}  // namespace

std::string connections_text(const plan_data& plan) {
    const int ranks = plan.machine.ranks();
    table rows("<>>");
    rows.add({"", "most", "mean"});
    const std::vector<int> some = looked_at(ranks);
    rank_lists everything(some.size());
    const auto add = [&](const std::string& name, rank_lists partners) {
        add_row(rows, name, partners);
        for (std::size_t r = 0; r < partners.size(); ++r)
            everything[r].insert(everything[r].end(), partners[r].begin(), partners[r].end());
    };
    for (const auto& [what, rules] : plan.rules) add(std::string(to_string(what)), partners_by(plan, what, some));
    add("comparing calls", partners_of_comparisons(ranks, some));
    add_row(rows, "all of them", everything);
    for (std::size_t r = 0; r < some.size(); ++r)
        std::erase_if(everything[r],
                      [&](int other) { return node_of(plan.machine, other) == node_of(plan.machine, some[r]); });
    add_row(rows, "all on other nodes", everything);
    const std::string sample =
        some.size() < at(ranks) ? fmt::format(", seen from {} of them", some.size()) : std::string();
    return fmt::format(
        "ranks that a rank exchanges messages with, of {}{}, with all rules of the plan (root: rank 0)\n{}", ranks,
        sample, rows.text());
}

}  // namespace terrace::detail
