#pragma once

#include <cstdint>
#include <span>

#include <terrace/gradients.hpp>

namespace terrace::detail {

/// Copies the tensors of rank `root` to all ranks, which have the same tensors. Small ones are packed into messages of
/// `fused_bytes`, larger ones travel by themselves.
void broadcast_state(communicator& comm, std::span<const state_tensor> tensors, int root, std::int64_t fused_bytes);

}  // namespace terrace::detail
