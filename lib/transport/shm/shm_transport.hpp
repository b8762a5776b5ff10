#pragma once

#include <memory>

#include "executor/transport.hpp"

namespace terrace {

/// Adds stages in shared memory, among the ranks of each machine node, to a transport for messages. Collective.
/// @param slots lanes that may be in flight   @param slot_bytes of the vector in each
/// @returns `net` itself where no node has two ranks, or memory cannot be shared on some node
std::unique_ptr<transport> add_shared_memory(std::unique_ptr<transport> net, int slots, std::size_t slot_bytes);

}  // namespace terrace
