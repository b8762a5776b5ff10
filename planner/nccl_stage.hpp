#pragma once

#include "planner/load_tally.hpp"

namespace terrace::detail {

/// Counts a collective of NCCL's own between GPUs, by position of the domain: a ring, of two rounds where all get
/// everything, or a chain of many pieces to or from a root. It has one start-up, that of the outermost level or of a
/// slower one inside; all links inside the domain carry the vector's share of a ring; and what arrives is reduced as it
/// passes through.
void add_nccl_stage(load_tally& tally);

}  // namespace terrace::detail
