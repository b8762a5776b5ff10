#include "topology/model.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace terrace::detail {

namespace {

constexpr std::array<std::string_view, 4> unit_table{"gpus", "cores", "numa", "packages"};

}  // namespace

std::string_view to_string(rank_unit u) noexcept { return unit_table[static_cast<std::size_t>(u)]; }

std::optional<rank_unit> parse_rank_unit(std::string_view text) noexcept {
    const auto found = std::find(unit_table.begin(), unit_table.end(), text);
    if (found == unit_table.end()) return {};
    return static_cast<rank_unit>(found - unit_table.begin());
}

std::string rank_unit_names() { return fmt::format("{}", fmt::join(unit_table, ", ")); }

}  // namespace terrace::detail
