#pragma once

#include "api/core.hpp"

namespace terrace::detail {

/// Lets device buffers be on a device: nccl::use_device. @param gpu null: of the module
void use_device(communicator_core& on, int number, const gpu_runtime* gpu = nullptr);

/// Enqueues a call of device buffers behind the work in `stream`, and returns.
void enqueue(communicator_core& on, const call_shape& call, const void* send, void* recv, CUstream_st* stream);

}  // namespace terrace::detail
