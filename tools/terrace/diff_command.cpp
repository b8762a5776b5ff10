#include "tools/terrace/commands.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "planner/planner.hpp"
#include "tools/common/output.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/proof.hpp"
#include "tools/terrace/summary.hpp"
#include "topology/describe.hpp"

namespace terrace::detail {

namespace {

// Returns the differences between two machines, a line each.
std::vector<std::string> machine_differences(const plan_data& a, const plan_data& b) {
    std::vector<std::string> lines;
    const auto compare = [&](const std::string& what, const std::string& one, const std::string& other) {
        if (one != other) lines.push_back(fmt::format("{}: {} -> {}", what, one, other));
    };
    compare("name", a.name, b.name);
    compare("shape", shape_text(a.machine.shape), shape_text(b.machine.shape));
    const std::size_t common = std::min(a.machine.levels.size(), b.machine.levels.size());
    for (std::size_t l = 0; l < common; ++l) {
        const level &one = a.machine.levels[l], &other = b.machine.levels[l];
        const std::string name = fmt::format("level {}", one.name);
        compare(name, one.name, other.name);
        compare(name + " fabric", std::string(to_string(one.medium)), std::string(to_string(other.medium)));
        compare(name + " bandwidth", bandwidth_text(one), bandwidth_text(other));
        compare(name + " latency", format_duration(one.latency), format_duration(other.latency));
        compare(name + " overhead", format_duration(one.overhead), format_duration(other.overhead));
    }
    // Compares hosts, processors, and the other facts of a plan about its machine.
    if (lines.empty() && write_hierarchy(a.machine, 0) != write_hierarchy(b.machine, 0))
        lines.emplace_back("hosts, trees of equal summary, or rates of single links differ");
    return lines;
}

std::string running_text(const plan_data& plan, const rule& r) {
    return fmt::format("{}, lanes {}", describe(plan.machine, r.stages), lanes_text(r));
}

double time_of(const hierarchy& machine, const rule& r, std::int64_t bytes, collective what) {
    return predict(machine, r.stages, bytes, r.lanes, r.chunk, what).time;
}

// Returns true if the machines have one shape. Both plans are then predicted on the newer machine.
bool same_shape(const plan_data& a, const plan_data& b) {
    return a.machine.shape == b.machine.shape && a.machine.levels.size() == b.machine.levels.size();
}

// Prints the sizes of one collective at which the plans run differently. Returns true if there are any.
bool print_collective(const plan_data& a, const plan_data& b, collective what) {
    const auto in_a = a.rules.find(what), in_b = b.rules.find(what);
    if (in_a == a.rules.end() || in_b == b.rules.end()) {
        if (in_a == a.rules.end() && in_b == b.rules.end()) return false;
        say("{}: only {} has rules\n\n", to_string(what), in_a == a.rules.end() ? "the second plan" : "the first plan");
        return true;
    }
    table rows(">>>><");
    rows.add({"up to", "first", "second", "gain", "what runs"});
    bool differs = false;
    std::set<std::int64_t> bounds;  // bounds of the rules of both plans: between two bounds, each plan uses one rule
    for (const rule& r : in_a->second) bounds.insert(r.up_to);
    for (const rule& r : in_b->second) bounds.insert(r.up_to);
    for (const std::int64_t bound : bounds) {
        const rule &one = a.choose(what, bound), &other = b.choose(what, bound);
        const std::string before = running_text(a, one), after = running_text(b, other);
        if (before == after) continue;
        differs = true;
        const std::int64_t bytes = bound == rule::no_bound ? std::max(one.at, other.at) : bound;
        const double first = time_of(same_shape(a, b) ? b.machine : a.machine, one, bytes, what);
        const double second = time_of(b.machine, other, bytes, what);
        rows.add(
            {bound_text(bound), format_duration(first), format_duration(second), ratio_text(first, second), before});
        rows.add({"", "", "", "", "-> " + after});
    }
    if (differs) say("{}: predicted at the upper bound of each range of sizes\n{}\n", to_string(what), rows.text());
    return differs;
}

}  // namespace

int diff_command::run() const {
    const plan_data a = read_runnable_plan(before), b = read_runnable_plan(after);
    const std::vector<std::string> machine = machine_differences(a, b);
    if (!machine.empty()) {
        say("The machines differ; {}:\n",
            same_shape(a, b) ? "both plans are predicted on the second one" : "each plan is predicted on its own");
        for (const std::string& line : machine) say("  {}\n", line);
        say("\n");
    }
    bool differs = !machine.empty();
    for (const collective what : all_collectives) differs |= print_collective(a, b, what);
    if (!differs) say("{} and {} run every collective alike\n", before.string(), after.string());
    return differs ? 1 : 0;
}

}  // namespace terrace::detail
