#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::detail {

/// The format in which contributions and results cross the links of a stage. `exact`: as they are. `automatic`, named
/// "auto": the shortest that options::wire_error allows (limited_rounding); where nothing is known of that, int8.
enum class wire_type : std::uint8_t { exact, bfloat16, float16, int8, automatic };

/// The type that instructions have for it.
constexpr wire_type instructed(wire_type t) noexcept { return t == wire_type::automatic ? wire_type::int8 : t; }

std::string_view to_string(wire_type t) noexcept;
/// Returns the wire type of a name; "exact" has one, too.
std::optional<wire_type> parse_wire_type(std::string_view text) noexcept;

/// "bfloat16, float16, int8, auto".
std::string wire_type_names();

/// The most that rounding changes an element, relative to the largest magnitude that is rounded with it: half a place
/// of the significand, or half a scale.
constexpr double wire_error(wire_type t) noexcept {
    constexpr double of_type[] = {0, 0x1p-9, 0x1p-11, 0.5 / 126};
    return of_type[static_cast<std::size_t>(instructed(t))];
}

/// Elements of int8 that have a scale in common, counted from the beginning of what is encoded together.
inline constexpr std::int64_t wire_block = 256;

/// Bytes of `count` elements encoded together: 2 each, or 1 each and a scale of 4 for each block; of exact ones 0.
constexpr std::int64_t wire_bytes(wire_type t, std::int64_t count) noexcept {
    switch (instructed(t)) {
        case wire_type::exact: return 0;
        case wire_type::int8: return count + 4 * ((count + wire_block - 1) / wire_block);
        default: return 2 * count;
    }
}

/// What a long message has of its bytes in the wire type, if its elements have `element` bytes.
constexpr double wire_ratio(wire_type t, std::int64_t element) noexcept {
    return t == wire_type::exact
               ? 1
               : static_cast<double>(wire_bytes(t, wire_block)) / static_cast<double>(wire_block * element);
}

}  // namespace terrace::detail
