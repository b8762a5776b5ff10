#pragma once

#include <cstdint>

#include "schedule/lane_code.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// A lowered schedule, and what a program derives from it when it is made.
struct compiled_schedule {
    explicit compiled_schedule(schedule s);

    schedule code;
    lane_code order;
    /// is_lone_stage(): a program runs such a chunk without a lane_machine.
    bool brief = false;
    /// detail::gives_copy()
    bool gives_copy = false;
    /// detail::takes_pieces()
    bool takes_pieces = false;
    /// Operands of the longest reduction, at least 2.
    std::uint32_t most_sources = 2;
    /// Some message is received into a staging buffer (recv_reduce).
    bool needs_staging = false;
};

}  // namespace terrace::detail
