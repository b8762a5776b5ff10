#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace terrace::detail {

/// A schedule in the form that a lane_machine walks: dependencies, and the order in which each kind of instruction is
/// issued. Numbers are indices into schedule::instrs.
struct lane_code {
    enum class kind : std::uint8_t { send, receive, stage, local };

    lane_code() = default;
    explicit lane_code(const schedule& s);

    std::size_t size() const noexcept { return kinds.size(); }
    std::span<const std::uint32_t> successors_of(std::uint32_t n) const noexcept {
        return {successors.data() + first_successor[n], successors.data() + first_successor[n + 1]};
    }

    std::vector<kind> kinds;                     ///< by instruction
    std::vector<std::uint32_t> waits;            ///< by instruction: the number of instructions that it waits for
    std::vector<std::uint32_t> sends;            ///< in program order
    std::vector<std::uint32_t> receives;         ///< in program order
    std::vector<std::uint32_t> stages;           ///< in program order
    std::vector<std::uint32_t> locals;           ///< in program order
    std::vector<bool> fenced;                    ///< by instruction: see fenced_sends
    bool takes_routes = false;                   ///< parts of the chunk take routes side by side (lib/plan/routes.hpp)
    std::vector<std::uint32_t> first_successor;  ///< by instruction, and the end: index into `successors`
    std::vector<std::uint32_t> successors;       ///< instructions that wait for this one
};

/// Returns the kind of an action.
constexpr lane_code::kind kind_of(action a) noexcept {
    switch (a) {
        case action::send: return lane_code::kind::send;
        case action::recv:
        case action::recv_reduce: return lane_code::kind::receive;
        case action::copy:
        case action::reduce:
        case action::encode:
        case action::decode: return lane_code::kind::local;
        default: return lane_code::kind::stage;
    }
}

}  // namespace terrace::detail
