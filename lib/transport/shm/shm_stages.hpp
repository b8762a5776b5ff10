#pragma once

#include <cstddef>
#include <memory>

#include "transport/network.hpp"

namespace terrace::detail {

/// Makes a runner of stages in shared memory, among the ranks of each machine node. Collective. Returns null if no node
/// has two ranks, or if some node cannot share memory. @throws transport_error
/// @param by `memory` must not be null; its team and memory must outlive the runner
/// @param slots lanes that may be in flight   @param slot_bytes size of the vector in each
std::unique_ptr<node_stage_runner> make_shm_stages(connection& by, int slots, std::size_t slot_bytes);

}  // namespace terrace::detail
