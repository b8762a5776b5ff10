#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace terrace::detail {

/// Returns the enumerator with a name. `names` has the order of the enumerators. Returns nothing for other texts.
template <class Enum, std::size_t N>
std::optional<Enum> find_name(const std::array<std::string_view, N>& names, std::string_view text) noexcept {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) return {};
    return static_cast<Enum>(found - names.begin());
}

}  // namespace terrace::detail
