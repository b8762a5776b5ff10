#include "base/wire_type.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

namespace terrace::detail {

namespace {

constexpr std::array<std::string_view, 4> names{"exact", "bfloat16", "float16", "int8"};

}  // namespace

std::string_view to_string(wire_type t) noexcept { return names[static_cast<std::size_t>(t)]; }

std::optional<wire_type> parse_wire_type(std::string_view text) noexcept {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) return {};
    return static_cast<wire_type>(found - names.begin());
}

std::string wire_type_names() { return fmt::format("{}", fmt::join(names.begin() + 1, names.end(), ", ")); }

}  // namespace terrace::detail
