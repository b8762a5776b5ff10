#include <array>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "plan/whole_levels.hpp"
#include "planner/policy.hpp"
#include "planner/search.hpp"

namespace terrace::detail {

namespace {

// A baseline: the schedule of a library that knows only the nodes of the machine. Its row gives the graph of the
// messages; the registry has the algorithm for the graph.
struct baseline_row {
    std::string_view name;
    std::string_view name_of_roots;  // for broadcast and reduce
    bool by_nodes = false;  // one stage inside the node, with the fastest algorithm, and one over the other levels
    std::optional<message_graph> scatter;  // of the last stage in mode scatter; none: mode root in every collective
    std::optional<message_graph> root;     // of the last stage in mode root; none: no broadcast and reduce
    bool by_nics = false;                  // uses all NICs; a candidate only if nodes have several
    bool of_exchanges = false;             // only for collectives that exchange blocks

    // Returns false for collectives of blocks if one rank would need the blocks of all.
    bool runs(collective what) const noexcept {
        if (of_exchanges || row_of(what).exchange) return of_exchanges && row_of(what).exchange;
        return row_of(what).has_root() ? root.has_value() : scatter || !row_of(what).blocks;
    }
};

constexpr std::array<baseline_row, 6> rows{{
    {"flat-ring", "flat-chain", false, message_graph::one_neighbour, message_graph::one_neighbour},
    {"flat-rings", "flat-chains", false, message_graph::node_rings, message_graph::node_rings, true},
    {"two-level", "two-level", true, message_graph::one_neighbour, message_graph::tree},
    {"two-level-nics", "two-level-nics", true, message_graph::one_neighbour, message_graph::tree, true},
    {"central", "central", false, {}, message_graph::all_at_once},
    {"direct", "direct", false, message_graph::all_at_once, {}, false, true},
}};

stage last_stage(const hierarchy& machine, int first, const baseline_row& row, collective what) {
    const bool scatters = row.scatter && (!row_of(what).has_root() || row_of(what).exchange);
    stage s = whole_levels(machine.shape, first, machine.depth() - 1);
    s.how = scatters ? mode::scatter : mode::root;
    s.algorithm = known_algorithms().find(scatters ? *row.scatter : *row.root, s.how)->name;
    return s;
}

// Sets the algorithm of the stage inside the node: the fastest at the usual size, since libraries use one algorithm for
// all sizes.
void choose_node_algorithm(pricer& prices, std::vector<stage>& stages, collective what) {
    constexpr double usual = 1 << 20;  // bytes
    double best = std::numeric_limits<double>::infinity();
    for (const stage_option& o : prices.options_of(stages, 0, what)) {
        const double time = o.cost->time(usual);
        if (time >= best * (1 - rounding)) continue;
        best = time;
        o.apply_to(stages.front());
    }
}

candidate made(pricer& prices, const baseline_row& row, collective what) {
    const hierarchy& machine = prices.machine();
    candidate c{std::string(row_of(what).has_root() ? row.name_of_roots : row.name), {}};
    if (!row.by_nodes) {
        c.stages.push_back(last_stage(machine, 0, row, what));
        return c;
    }
    // Levels of the node, from the innermost on. If the machine is one node, or has no nodes, the innermost level.
    const int levels = machine.node_levels(), inside = levels == 0 || levels >= machine.depth() ? 1 : levels;
    c.stages.push_back(whole_levels(machine.shape, 0, inside - 1));
    c.stages.back().how = row.by_nics || row_of(what).blocks ? mode::scatter : mode::root;
    if (inside < machine.depth()) c.stages.push_back(last_stage(machine, inside, row, what));
    choose_node_algorithm(prices, c.stages, what);
    return c;
}

}  // namespace

std::vector<candidate> baselines(pricer& prices, collective what) {
    const hierarchy& machine = prices.machine();
    const bool many_nics = machine.nics.rail_count() > 1 && machine.ranks() <= policy.largest_group;
    std::vector<candidate> all;
    for (const baseline_row& row : rows)
        if (row.runs(what) && (many_nics || !row.by_nics)) all.push_back(made(prices, row, what));
    return all;
}

candidate named_baseline(pricer& prices, std::string_view name, collective what) {
    std::vector<std::string_view> names;
    for (const baseline_row& row : rows) {
        if (!row.runs(what)) continue;
        if (row.name == name) return made(prices, row, what);
        names.push_back(row.name);
    }
    throw usage_error(
        fmt::format("there is no baseline \"{}\" of {}; these are {}", name, to_string(what), fmt::join(names, ", ")));
}

}  // namespace terrace::detail
