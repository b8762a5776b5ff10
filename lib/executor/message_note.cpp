#include "executor/message_note.hpp"

namespace terrace::detail {

namespace {

// The first word has this bit, and not the one above it: no other note does. Then what it is, the type and the tag.
constexpr int mark_shift = 62, kind_shift = 48, type_shift = 32;
constexpr std::uint64_t low_byte = 0xff;

}  // namespace

note message_note::packed() const noexcept {
    const std::uint64_t first = std::uint64_t{1} << mark_shift | static_cast<std::uint64_t>(what) << kind_shift |
                                static_cast<std::uint64_t>(type) << type_shift | static_cast<std::uint32_t>(tag);
    return {0, {first, number, size, payload[0], payload[1]}};
}

std::optional<message_note> message_note::in(const note& n) noexcept {
    const std::uint64_t first = n.words[0];
    if (first >> mark_shift != 1) return {};
    return message_note{.what = static_cast<kind>(first >> kind_shift & low_byte),
                        .type = static_cast<element_type>(first >> type_shift & low_byte),
                        .tag = static_cast<int>(static_cast<std::uint32_t>(first)),
                        .number = n.words[1],
                        .size = n.words[2],
                        .payload = {n.words[3], n.words[4]}};
}

}  // namespace terrace::detail
