#pragma once

#include <cstddef>

#include <mpi.h>

#include <terrace/communicator.hpp>

struct CUstream_st;  // what CUDA's cudaStream_t points to: this header needs none of CUDA's

namespace terrace {

/// Elements in a device's memory. Never dereferenced on the host.
template <class T>
class device_span {
public:
    constexpr device_span() noexcept = default;
    constexpr device_span(T* data, std::size_t count) noexcept : data_(data), count_(count) {}
    /// To elements that are only read.
    constexpr operator device_span<const T>() const noexcept { return {data_, count_}; }

    constexpr T* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return count_; }
    constexpr device_span subspan(std::size_t from, std::size_t count) const noexcept { return {data_ + from, count}; }

private:
    T* data_ = nullptr;
    std::size_t count_ = 0;
};

}  // namespace terrace

/// Collectives of device buffers by a plan, through NCCL. terrace-nccl.so is loaded when a communicator is created, so
/// that a program that includes this starts, and uses host buffers, where there is neither CUDA nor NCCL nor a GPU.
namespace terrace::nccl {

/// The rank's number on its machine node, modulo the devices that there are.
inline constexpr int device_by_rank = -1;

/// As mpi::create, for host buffers and for buffers on the device that this rank names. Collective. A call whose
/// buffers are on the device may be made like any other: it begins at once, and is complete when the result is there.
/// The functions below make it wait for a stream, and the stream for it, rather than the caller. The communicator's
/// device is the thread's current one after any of its calls.
/// @throws transport_error on all ranks where one has no usable device or NCCL, with the reason and what to do, within
/// a second; else as mpi::create, timeout_error
TERRACE_API communicator create(MPI_Comm world, const plan& p, int device = device_by_rank, const options& o = {});

/// The same by the plan in `o.plan_file`; where that is empty, by one made for the job. @throws as mpi::create
TERRACE_API communicator create(MPI_Comm world, int device, const options& o);

// What each call below does is said at the member of `communicator` with its name. It returns at once: the call runs
// after what is in `stream` when it is made, and what is put in later runs after it. A failure shows in a later call,
// or in synchronize(). The first call of a shape compares it between ranks (options::check) and allocates; if that is
// done, a stream that is being captured into a CUDA graph captures the calls. Replays are ordered by the caller against
// each other and against other calls, the same on all ranks. All throw usage_error, transport_error, timeout_error.

/// The same by address, count and type.
struct stream_call {
    const void* send;
    void* recv;
    std::size_t sent, received;  ///< elements
    element_type type;
    CUstream_st* stream;
};
TERRACE_API void allreduce(communicator& comm, const stream_call& c, reduce_op op);
TERRACE_API void reduce_scatter(communicator& comm, const stream_call& c, reduce_op op);
TERRACE_API void allgather(communicator& comm, const stream_call& c);
TERRACE_API void broadcast(communicator& comm, const stream_call& c, int root);
TERRACE_API void reduce(communicator& comm, const stream_call& c, int root, reduce_op op);

template <element T>
stream_call stream_call_of(device_span<const T> send, device_span<T> recv, CUstream_st* stream) {
    return {send.data(), recv.data(), send.size(), recv.size(), element_type_of<T>, stream};
}

template <element T>
void allreduce(communicator& comm, device_span<T> data, reduce_op op, CUstream_st* stream) {
    allreduce(comm, stream_call_of<T>(data, data, stream), op);
}
template <element T>
void allreduce(communicator& comm, device_span<const T> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
    allreduce(comm, stream_call_of<T>(send, recv, stream), op);
}
template <element T>
void reduce_scatter(communicator& comm, device_span<const T> send, device_span<T> recv, reduce_op op,
                    CUstream_st* stream) {
    reduce_scatter(comm, stream_call_of<T>(send, recv, stream), op);
}
template <element T>
void allgather(communicator& comm, device_span<const T> send, device_span<T> recv, CUstream_st* stream) {
    allgather(comm, stream_call_of<T>(send, recv, stream));
}
template <element T>
void broadcast(communicator& comm, device_span<T> data, int root, CUstream_st* stream) {
    broadcast(comm, stream_call_of<T>(data, data, stream), root);
}
template <element T>
void reduce(communicator& comm, device_span<const T> send, device_span<T> recv, int root, reduce_op op,
            CUstream_st* stream) {
    reduce(comm, stream_call_of<T>(send, recv, stream), root, op);
}

/// Returns when all calls made so far are through; unlike cudaStreamSynchronize it ends where another rank is gone.
/// @throws transport_error, timeout_error
TERRACE_API void synchronize(communicator& comm);

}  // namespace terrace::nccl
