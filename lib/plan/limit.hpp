#pragma once

#include <cstdint>

#include "base/collective.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Returns the limit of a collective [s]: a lower bound of its time by any schedule of point-to-point messages, without
/// latency and processor time. It is the time of the busiest link if links are used as evenly as possible.
/// docs/reference/cost-model.md, "Limit" and "Torus", has the formulas.
/// @param bytes of the vector, or of a rank's blocks together
double limit(const hierarchy& machine, std::int64_t bytes, collective what = collective::allreduce);

}  // namespace terrace::detail
