#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <terrace/types.hpp>

#include "transport/messages.hpp"

namespace terrace::detail {

/// What two ranks tell each other of a caller's message.
struct message_note {
    enum class kind : std::uint64_t {
        inlined = 1,  ///< an envelope, with the data in it
        eager,        ///< an envelope; the data follow at once
        rendezvous,   ///< an envelope; the data wait for grants
        grant,        ///< `size` further pieces of message `number` may be sent
        refusal,      ///< message `number` does not fit, and is over
        credit,       ///< `size` envelopes have been taken
    };

    kind what = kind::inlined;
    element_type type{};                     ///< of an envelope, as the next
    int tag = 0;                             ///< 0 ... 2^31 - 1
    std::uint64_t number = 0;                ///< the sender's, of the message
    std::uint64_t size = 0;                  ///< of an envelope: bytes
    std::array<std::uint64_t, 2> payload{};  ///< of kind `inlined`

    /// Returns it as a note, which no other note is equal to.
    note packed() const noexcept;
    /// Returns what a note says; nothing if it is not about a message.
    static std::optional<message_note> in(const note& n) noexcept;
};

}  // namespace terrace::detail
