#include "base/wire_type.hpp"

#include <array>

#include <fmt/ranges.h>

#include "base/find_name.hpp"

namespace terrace::detail {

namespace {

constexpr std::array<std::string_view, 5> names{"exact", "bfloat16", "float16", "int8", "auto"};

}  // namespace

std::string_view to_string(wire_type t) noexcept { return names[static_cast<std::size_t>(t)]; }

std::optional<wire_type> parse_wire_type(std::string_view text) noexcept { return find_name<wire_type>(names, text); }

std::string wire_type_names() { return fmt::format("{}", fmt::join(names.begin() + 1, names.end(), ", ")); }

}  // namespace terrace::detail
