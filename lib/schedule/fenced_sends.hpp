#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace terrace::detail {

/// Returns by instruction whether it is a fenced send: one that waits until the lane has no earlier send in flight.
///
/// A fenced send is the first send of a step that passes on data received in the same stage, to other ranks than the
/// step before. This occurs in `halving`, and below the root of a `tree`. Without the fence, a rank that is slightly
/// ahead would start such a step while its last sends are still on the wire. Both would share the rank's link, the
/// receiver of the earlier send would fall behind, and each exchange would spread the ranks further apart.
std::vector<bool> fenced_sends(const schedule& s);

}  // namespace terrace::detail
