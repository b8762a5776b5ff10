#pragma once

#include <terrace/terrace.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// GPUs. Once a communicator has a device, collectives accept buffers there as well as buffers of the host.

/// Lets a communicator that has none use a GPU of this rank: terrace::nccl::use_device. Collective.
/// @param device terrace_device_by_rank, or the number of a GPU on this node
terrace_status terrace_use_device(terrace_communicator* communicator, int device);
/// Sets `*stream` to the cudaStream_t in which calls of device buffers are put, behind what is there: work that the
/// caller puts there later runs behind the calls. It belongs to the communicator.
terrace_status terrace_device_stream(terrace_communicator* communicator, void** stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
