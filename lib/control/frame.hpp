#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "transport/messages.hpp"

namespace terrace::detail {

/// Which of a service's rounds a control message belongs to, and what of it: the page on control messages says what
/// the two numbers are for each kind.
struct control_place {
    std::uint16_t epoch = 0;  ///< wraps around
    std::uint32_t number = 0;
};

/// A control message of 40 bytes: 8 that say what it is, and a body. Unused bytes of the body are 0. All ranks have the
/// same byte order.
struct control_frame {
    std::uint8_t service = 0;  ///< a row of the table of services
    std::uint8_t kind = 0;     ///< of the service's
    std::uint16_t epoch = 0;
    std::uint32_t number = 0;
    std::array<std::uint64_t, 4> body{};

    static control_frame from(const control_message& m) noexcept { return std::bit_cast<control_frame>(m.words); }
    control_message message() const noexcept { return {0, std::bit_cast<decltype(control_message::words)>(*this)}; }

    template <class Body>
    void put(const Body& b) noexcept {
        static_assert(std::has_unique_object_representations_v<Body> && sizeof b <= sizeof body);
        std::memcpy(body.data(), &b, sizeof b);
    }
    template <class Body>
    Body get() const noexcept {
        static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= sizeof body);
        Body b{};
        std::memcpy(static_cast<void*>(&b), body.data(), sizeof b);
        return b;
    }
};

}  // namespace terrace::detail
