#pragma once

#include <terrace/terrace.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// GPUs. Once a communicator has a device, collectives accept device buffers as well as host buffers.

/// Gives a GPU of this rank to a communicator that has none: terrace::nccl::use_device. Collective.
/// @param device terrace_device_by_rank, or the number of a GPU on this node
terrace_status terrace_use_device(terrace_communicator* communicator, int device);
/// Sets `*stream` to the cudaStream_t in which calls of device buffers run, after the work already there and before
/// work that the caller puts there later. The stream belongs to the communicator.
terrace_status terrace_device_stream(terrace_communicator* communicator, void** stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
