#include "planner/link_rows.hpp"

#include <set>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

std::vector<int> link_counts(const hierarchy& machine, int l) {
    const nic_set& nics = machine.nics;
    if (nics.empty() || l != machine.node_levels()) return std::vector<int>(at(machine.shape.members(l)), 1);
    std::vector<int> counts(at(nics.nodes()));
    for (const int nic : std::set<int>(nics.of_rank.begin(), nics.of_rank.end())) ++counts[at(nics.node_of(nic))];
    return counts;
}

link_rows::link_rows(const hierarchy& machine) : machine_(machine), nodes_(machine.node_levels()) {
    if (machine.nics.spine > 0)
        for (const int nic : machine.nics.of_rank) rails_.push_back(machine.nics.rail_of(nic));
}

int link_rows::members(int row) const noexcept {
    if (is_level(row)) return machine_.shape.members(row);
    return row == nic_row() ? machine_.nics.count() : machine_.nics.rail_count();
}

double link_rows::rate(int row, int member) const noexcept {
    if (is_level(row)) return machine_.rate(row, member);
    return row == nic_row() ? machine_.nics.rate(member) : machine_.nics.spine;
}

std::vector<int> link_rows::shapers(int row) const {
    const bool shaped = between_nodes(machine_.levels[at(level(row))].medium);
    if (shaped && is_level(row)) return link_counts(machine_, row);
    return std::vector<int>(at(members(row)), shaped ? 1 : 0);
}

int link_rows::member_of(int row, int rank) const noexcept {
    if (is_level(row)) return machine_.shape.domain_of(row - 1, rank);
    return row == nic_row() ? machine_.nics.of(rank) : rail(rank);
}

std::string link_rows::name(int row) const {
    const std::string& of = machine_.levels[at(level(row))].name;
    return is_level(row) ? of : fmt::format("{} of {}", row == nic_row() ? "NICs" : "spine", of);
}

}  // namespace terrace::detail
