#pragma once

#include <cstddef>
#include <cstdint>

#include <terrace/types.hpp>

#include "base/element_types.hpp"
#include "kernels/gpu_reduce.hpp"

// Types behind the handles of CUDA and NCCL, under their own names, so this file needs no header of theirs.
struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;
struct ncclComm;

namespace terrace::detail {

using gpu_stream = CUstream_st*;
using gpu_event = CUevent_st*;
using gpu_graph = CUgraphExec_st*;  ///< ready to run
using nccl_comm = ncclComm*;

/// ncclUniqueId.
struct nccl_id {
    char bytes[128];
};

/// All functions of CUDA and NCCL that Terrace calls, and its own kernels for the device. The library reaches a GPU
/// only through this table. The module terrace-nccl.so fills it with the real functions, the tests' stand-in with its
/// own. Functions that return int return the code of CUDA or NCCL, 0 for success.
struct gpu_runtime {
    /// NCCL's code for an operation in progress on a nonblocking communicator.
    static constexpr int in_progress = 7;
    /// The capture mode in which calls of a thread break no stream capture.
    static constexpr int relaxed = 2;

    const char* version;  ///< version of Terrace, which must equal that of the library
    std::size_t bytes;    ///< size of the table

    // CUDA. Copies go from host to device and back.
    const char* (*cuda_error)(int code);
    int (*cuda_versions)(int* driver, int* runtime);  ///< 13000 is 13.0; driver 0: no driver
    int (*device_count)(int* count);
    int (*use_device)(int device);  ///< from now on, in this thread
    int (*device_name)(int device, char* name, std::size_t bytes);
    int (*device_of)(const void* memory, int* device);  ///< -1: no memory of a device
    int (*allocate)(void** memory, std::size_t bytes);
    int (*release)(void* memory);
    int (*allocate_pinned)(void** memory, std::size_t bytes);  ///< host memory, for asynchronous copies
    int (*release_pinned)(void* memory);
    int (*make_stream)(gpu_stream* stream);  ///< a stream that waits for no other
    int (*drop_stream)(gpu_stream stream);
    int (*stream_done)(gpu_stream stream, bool* done);
    int (*stream_captured)(gpu_stream stream, bool* captured);  ///< true while its work is captured into a graph
    int (*make_event)(gpu_event* event);
    int (*drop_event)(gpu_event event);
    int (*record)(gpu_event event, gpu_stream stream);
    int (*wait)(gpu_stream stream, gpu_event event);  ///< makes the stream wait
    int (*event_done)(gpu_event event, bool* done);
    int (*copy)(void* to, const void* from, std::size_t bytes, gpu_stream stream);
    // Synchronisation of a stream and a thread of the host, by a number in pinned memory.
    int (*write_value)(gpu_stream stream, std::uint32_t* where, std::uint32_t value);
    int (*wait_value)(gpu_stream stream, std::uint32_t* where, std::uint32_t least);  ///< makes earlier data visible
    int (*capture_mode)(int* mode);  ///< exchanges the capture mode of this thread
    // For measurements.
    int (*make_timer)(gpu_event* event);                                    ///< an event with a time stamp
    int (*seconds_between)(double* seconds, gpu_event from, gpu_event to);  ///< timers that have been reached
    int (*begin_capture)(gpu_stream stream);  ///< its work, and that of streams that wait for it, becomes a graph
    int (*end_capture)(gpu_stream stream, gpu_graph* graph);
    int (*launch)(gpu_graph graph, gpu_stream stream);
    int (*drop_graph)(gpu_graph graph);

    // NCCL. Communicators of Terrace are nonblocking: functions may return in_progress, and status() returns it until
    // they are complete.
    const char* (*nccl_error)(int code);
    int (*nccl_version)(int* version);  ///< 22809 is 2.28.9
    int (*make_id)(nccl_id* id);
    int (*make_comm)(nccl_comm* comm, int ranks, const nccl_id* id, int rank, bool blocking);
    int (*split)(nccl_comm comm, int color, int key, nccl_comm* part);  ///< negative color: takes part, gets null
    int (*status)(nccl_comm comm, int* code);
    int (*finalize)(nccl_comm comm);
    int (*drop_comm)(nccl_comm comm);
    int (*abort)(nccl_comm comm);
    int (*group_start)();
    int (*group_end)();
    int (*send)(const void* from, std::size_t bytes, int peer, nccl_comm comm, gpu_stream stream);
    int (*recv)(void* to, std::size_t bytes, int peer, nccl_comm comm, gpu_stream stream);
    int (*all_gather)(const void* from, void* to, std::size_t bytes, nccl_comm comm, gpu_stream stream);
    int (*broadcast)(const void* from, void* to, std::size_t bytes, int root, nccl_comm comm, gpu_stream stream);
    // Only for types and operations with nccl_reduces(). Here avg computes the sum.
    int (*all_reduce)(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm comm,
                      gpu_stream stream);
    int (*reduce_scatter)(const void* from, void* to, std::size_t count, element_type type, reduce_op op,
                          nccl_comm comm, gpu_stream stream);
    int (*reduce)(const void* from, void* to, std::size_t count, element_type type, reduce_op op, int root,
                  nccl_comm comm, gpu_stream stream);

    /// Terrace's own kernel for reductions.
    gpu_reduce_kernel combine;
};

/// Returns true if NCCL has the type and computes the operation as Terrace defines it. NaN propagates in Terrace's min
/// and max; NCCL's documentation does not define this. A float16 sum may overflow although the average does not.
constexpr bool nccl_reduces(element_type type, reduce_op op) noexcept {
    const bool differs = (is_float(type) && (op == reduce_op::min || op == reduce_op::max)) ||
                         (type == element_type::float16 && op == reduce_op::avg);
    return nccl_has(type) && nccl_has(op) && !differs;
}

}  // namespace terrace::detail
