#pragma once

#include <cstddef>
#include <cstdint>

#include <terrace/types.hpp>

#include "base/element_types.hpp"
#include "kernels/gpu_reduce.hpp"

// CUDA's and NCCL's own names for what their handles point to, so that no header of theirs is needed here.
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

/// All that Terrace calls of CUDA and NCCL, and its own kernels for the device: the one way from the library to a GPU.
/// The module terrace-nccl.so fills it with the real functions, the tests' stand-in with its own. Functions that return
/// int return CUDA's or NCCL's code, 0 where all is well.
struct gpu_runtime {
    /// NCCL's code for what is still under way on a nonblocking communicator.
    static constexpr int in_progress = 7;
    /// The capture mode in which a thread breaks nobody's capture.
    static constexpr int relaxed = 2;

    const char* version;  ///< of Terrace: table and library must be of one
    std::size_t bytes;    ///< of the table

    // CUDA. Copies go between host and device either way.
    const char* (*cuda_error)(int code);
    int (*cuda_versions)(int* driver, int* runtime);  ///< 13000 is 13.0; a driver of 0 is none
    int (*device_count)(int* count);
    int (*use_device)(int device);  ///< from now on, in this thread
    int (*device_name)(int device, char* name, std::size_t bytes);
    int (*device_of)(const void* memory, int* device);  ///< -1 where it is no device's
    int (*allocate)(void** memory, std::size_t bytes);
    int (*release)(void* memory);
    int (*allocate_pinned)(void** memory, std::size_t bytes);  ///< of the host, for copies that do not wait
    int (*release_pinned)(void* memory);
    int (*make_stream)(gpu_stream* stream);  ///< one that waits for no other
    int (*drop_stream)(gpu_stream stream);
    int (*stream_done)(gpu_stream stream, bool* done);
    int (*stream_captured)(gpu_stream stream, bool* captured);  ///< whether a graph is being made of what it gets
    int (*make_event)(gpu_event* event);
    int (*drop_event)(gpu_event event);
    int (*record)(gpu_event event, gpu_stream stream);
    int (*wait)(gpu_stream stream, gpu_event event);  ///< the stream does
    int (*event_done)(gpu_event event, bool* done);
    int (*copy)(void* to, const void* from, std::size_t bytes, gpu_stream stream);
    // Between a stream and a thread of the host, by a number in pinned memory.
    int (*write_value)(gpu_stream stream, std::uint32_t* where, std::uint32_t value);
    int (*wait_value)(gpu_stream stream, std::uint32_t* where, std::uint32_t least);  ///< sees what arrived before, too
    int (*capture_mode)(int* mode);  ///< exchanges what this thread may do while streams are captured
    // For who measures.
    int (*make_timer)(gpu_event* event);                                    ///< an event that knows when it was reached
    int (*seconds_between)(double* seconds, gpu_event from, gpu_event to);  ///< of two timers that have been
    int (*begin_capture)(gpu_stream stream);  ///< what it and those that wait for it get becomes a graph
    int (*end_capture)(gpu_stream stream, gpu_graph* graph);
    int (*launch)(gpu_graph graph, gpu_stream stream);
    int (*drop_graph)(gpu_graph graph);

    // NCCL. Communicators of Terrace are nonblocking: calls on one may return in_progress, which status() does until
    // they are through.
    const char* (*nccl_error)(int code);
    int (*nccl_version)(int* version);  ///< 22809 is 2.28.9
    int (*make_id)(nccl_id* id);
    int (*make_comm)(nccl_comm* comm, int ranks, const nccl_id* id, int rank, bool blocking);
    int (*split)(nccl_comm comm, int color, int key, nccl_comm* part);  ///< a negative color takes part and gets null
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
    // For types and operations that nccl_reduces() names; avg is sum here.
    int (*all_reduce)(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm comm,
                      gpu_stream stream);
    int (*reduce_scatter)(const void* from, void* to, std::size_t count, element_type type, reduce_op op,
                          nccl_comm comm, gpu_stream stream);
    int (*reduce)(const void* from, void* to, std::size_t count, element_type type, reduce_op op, int root,
                  nccl_comm comm, gpu_stream stream);

    /// Terrace's own kernel.
    gpu_reduce_kernel combine;
};

/// True if NCCL has the type and computes the operation as Terrace defines it. NaN propagates in Terrace's min and max;
/// NCCL's documentation does not say what it does in NCCL's. A sum of float16 overflows where the average does not.
constexpr bool nccl_reduces(element_type type, reduce_op op) noexcept {
    const bool differs = (is_float(type) && (op == reduce_op::min || op == reduce_op::max)) ||
                         (type == element_type::float16 && op == reduce_op::avg);
    return nccl_has(type) && nccl_has(op) && !differs;
}

}  // namespace terrace::detail
