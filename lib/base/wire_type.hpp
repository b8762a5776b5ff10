#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::detail {

/// Format in which contributions and results cross the links of a stage. `exact`: unchanged. `automatic`, named "auto":
/// the shortest that options::wire_error allows (limited_rounding), or int8 if that limit is unknown.
enum class wire_type : std::uint8_t { exact, bfloat16, float16, int8, automatic };

/// Returns the type for instructions: int8 in place of `automatic`.
constexpr wire_type instructed(wire_type t) noexcept { return t == wire_type::automatic ? wire_type::int8 : t; }

std::string_view to_string(wire_type t) noexcept;
/// Returns the wire type with a name, "exact" included; nothing for other texts.
std::optional<wire_type> parse_wire_type(std::string_view text) noexcept;

/// Returns "bfloat16, float16, int8, auto".
std::string wire_type_names();

/// Returns the maximum rounding error of an element, relative to the largest magnitude that is encoded with it: half a
/// place of the significand, or half a scale.
constexpr double wire_error(wire_type t) noexcept {
    constexpr double of_type[] = {0, 0x1p-9, 0x1p-11, 0.5 / 126};
    return of_type[static_cast<std::size_t>(instructed(t))];
}

/// Number of int8 elements that share a scale, counted from the first of the elements that are encoded together.
inline constexpr std::int64_t wire_block = 256;

/// Returns the bytes of `count` elements encoded together: 2 each, or 1 each and 4 per block for the scale; 0 if exact.
constexpr std::int64_t wire_bytes(wire_type t, std::int64_t count) noexcept {
    switch (instructed(t)) {
        case wire_type::exact: return 0;
        case wire_type::int8: return count + 4 * ((count + wire_block - 1) / wire_block);
        default: return 2 * count;
    }
}

/// Returns the length of a long message in the wire type relative to its elements of `element` bytes.
constexpr double wire_ratio(wire_type t, std::int64_t element) noexcept {
    return t == wire_type::exact
               ? 1
               : static_cast<double>(wire_bytes(t, wire_block)) / static_cast<double>(wire_block * element);
}

}  // namespace terrace::detail
