#include "machine/link_rows.hpp"

#include <fmt/format.h>

namespace terrace::detail {

link_rows::link_rows(const hierarchy& machine) : machine_(machine), nodes_(machine.node_levels()) {
    if (machine.nics.spine > 0)
        for (const int nic : machine.nics.of_rank) rails_.push_back(machine.nics.rail_of(nic));
    first_.push_back(0);
    for (int row = 0; row < count(); ++row) first_.push_back(first_.back() + 2 * members(row));
}

std::string link_rows::name(int row) const {
    const std::string& of = machine_.levels[at(level(row))].name;
    return is_level(row) ? of : fmt::format("{} of {}", row == nic_row() ? "NICs" : "spine", of);
}

}  // namespace terrace::detail
