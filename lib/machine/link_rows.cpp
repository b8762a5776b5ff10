#include "machine/link_rows.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

link_rows::link_rows(const hierarchy& machine) : machine_(machine), nodes_(machine.node_levels()) {
    if (machine.nics.spine > 0)
        for (const int nic : machine.nics.of_rank) rails_.push_back(machine.nics.rail_of(nic));
    first_.push_back(0);
    for (int row = 0; row < count(); ++row) first_.push_back(first_.back() + 2 * members(row));
}

int link_rows::row_of(int link) const noexcept {
    return static_cast<int>(std::ranges::upper_bound(first_, link) - first_.begin()) - 1;
}

double link_rows::rate_of(int link, int row) const noexcept {
    const bool on_ring = is_level(row) && machine_.levels[at(row)].ring;
    return rate(row, member_in(link, row)) * (on_ring ? machine_.ring_share(row) : 1);
}

int link_rows::members(int row) const noexcept {
    if (is_level(row)) return machine_.shape.members(row);
    return row == nic_row() ? machine_.nics.count() : machine_.nics.rail_count();
}

double link_rows::rate(int row, int member) const noexcept {
    if (is_level(row)) return machine_.rate(row, member);
    return row == nic_row() ? machine_.nics.rate(member) : machine_.nics.spine;
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
