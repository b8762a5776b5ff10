#pragma once

#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "executor/program.hpp"

namespace terrace::detail {

/// The lane slots of the transport's shared memory, in which lanes of programs run.
class lane_slot_table {
public:
    explicit lane_slot_table(int slots) : turns_(at(slots)), taken_(at(slots)) {}

    /// Gives the lanes of a program slots for its next call. Every rank gives the same slots to the same call, whether
    /// or not the call has work for them on that rank.
    void assign(program& p) {
        for (int l = 0; l < p.placed_lanes(); ++l) {
            std::uint64_t& turn = turns_[at(next_)];
            p.place_lane(l, {next_, turn});
            turn += static_cast<std::uint64_t>(p.chunks_of(l));
            next_ = wrap(next_ + 1, static_cast<int>(turns_.size()));
        }
    }
    /// Returns true if no running program occupies the program's slots.
    bool are_free(const program& p) const noexcept {
        for (int l = 0; l < p.placed_lanes(); ++l)
            if (taken_[at(p.slot_of(l).number)]) return false;
        return true;
    }
    /// Says that the program occupies its slots, or does so no longer.
    void occupy(const program& p, bool occupied) noexcept {
        for (int l = 0; l < p.placed_lanes(); ++l) taken_[at(p.slot_of(l).number)] = occupied;
    }

private:
    std::vector<std::uint64_t> turns_;  // by slot: chunks issued so far, equal on all ranks
    std::vector<bool> taken_;           // by slot
    int next_ = 0;                      // the slot for the next lane that gets one
};

}  // namespace terrace::detail
