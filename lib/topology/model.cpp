#include "topology/model.hpp"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/find_name.hpp"

namespace terrace::detail {

namespace {

constexpr std::array<std::string_view, 4> unit_table{"gpus", "cores", "numa", "packages"};

}  // namespace

std::string_view to_string(rank_unit u) noexcept { return unit_table[static_cast<std::size_t>(u)]; }

std::optional<rank_unit> parse_rank_unit(std::string_view text) noexcept {
    return find_name<rank_unit>(unit_table, text);
}

std::string rank_unit_names() { return fmt::format("{}", fmt::join(unit_table, ", ")); }

}  // namespace terrace::detail
