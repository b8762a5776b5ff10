#pragma once

#include <terrace/export.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <terrace/communicator.hpp>

struct CUstream_st;  // cudaStream_t is CUstream_st*; this header needs none of CUDA's headers

namespace terrace {

/// A span of elements in device memory. Does not own them, and never dereferences its address on the host.
template <class T>
class device_span {
public:
    using element_type = T;

    /// Makes an empty span.
    constexpr device_span() noexcept = default;
    /// @param data an address on the device   @param count elements there
    constexpr device_span(T* data, std::size_t count) noexcept : data_(data), count_(count) {}
    /// Converts to a span of elements that are only read.
    constexpr operator device_span<const T>() const noexcept { return {data_, count_}; }

    constexpr T* data() const noexcept { return data_; }
    /// Returns the number of elements.
    constexpr std::size_t size() const noexcept { return count_; }
    /// Returns the span of `count` elements from element `from` on; from + count <= size().
    constexpr device_span subspan(std::size_t from, std::size_t count) const noexcept { return {data_ + from, count}; }

private:
    T* data_ = nullptr;
    std::size_t count_ = 0;
};

namespace detail {
/// True if S is T or const T: a send buffer of S fits a receive buffer of T.
template <class S, class T>
concept sends = std::same_as<std::remove_const_t<S>, T>;
}  // namespace detail

}  // namespace terrace

/// Collectives of device buffers by a plan, through NCCL. The communicator must have a device: from nccl::create in
/// <terrace/nccl.hpp>, or by use_device().
namespace terrace::nccl {

/// Device number that selects the rank's place on its machine node, modulo the number of devices there.
inline constexpr int device_by_rank = -1;

/// Gives a device to a communicator that has none. Its calls then accept buffers on this device, and parts made of it
/// later have the device too. Ranks exchange NCCL's unique id over the communicator's bootstrap (MPI, a store).
/// Completes all calls in flight first. Collective. On failure the communicator is unchanged.
/// @throws transport_error on all ranks if a rank has no usable device or no NCCL, naming the rank; timeout_error
/// @throws usage_error if the communicator has a device, or the plan has stages of provider mpi that cannot run here
TERRACE_API void use_device(communicator& comm, int device = device_by_rank);

/// Returns the device stream in which members of `communicator` put calls of device buffers. The stream belongs to the
/// communicator. @throws usage_error if the communicator has no device
TERRACE_API CUstream_st* stream_of(communicator& comm);

// Each function below does the same as the member of `communicator` with its name, but returns at once. The call runs
// after the work that `stream` holds at that moment, and before work that is put into the stream later. The buffers
// belong to the call until the stream has completed it. Later calls and synchronize() throw the error of a failed one.
//
// The first call of a shape compares the calls of all ranks (options::check) and allocates memory. Later calls of that
// shape may be captured into a CUDA graph. The caller must order replays of graphs, and other calls, in the same way on
// all ranks.
//
// All throw usage_error, plan_error, transport_error and timeout_error as the members do.

/// The buffers of a call by address and count, their type, and the stream.
struct stream_call {
    const void* send;            ///< address on the device
    void* recv;                  ///< address on the device
    std::size_t sent, received;  ///< elements of send and of recv
    element_type type;
    CUstream_st* stream;
};

/// Calls communicator::allreduce of c.sent elements in a stream; c.received is the same.
TERRACE_API void allreduce(communicator& comm, const stream_call& c, reduce_op op);
/// Calls communicator::reduce_scatter of blocks of c.received elements in a stream; c.sent is size() times as many.
TERRACE_API void reduce_scatter(communicator& comm, const stream_call& c, reduce_op op);
/// Calls communicator::reduce_scatter of blocks of counts[r] elements for rank r in a stream; c.sent is their sum and
/// c.received the rank's own count. `counts` is memory of the host, read before this returns.
TERRACE_API void reduce_scatter(communicator& comm, const stream_call& c, std::span<const std::int64_t> counts,
                                reduce_op op);
/// Calls communicator::allgather of blocks of c.sent elements in a stream; c.received is size() times as many.
TERRACE_API void allgather(communicator& comm, const stream_call& c);
/// Calls communicator::allgather of blocks of counts[r] elements from rank r in a stream; c.received is their sum and
/// c.sent the rank's own count. `counts` is memory of the host, read before this returns.
TERRACE_API void allgather(communicator& comm, const stream_call& c, std::span<const std::int64_t> counts);
/// Calls communicator::alltoall of c.sent elements in a stream; c.received is the same, and holds a block for each
/// rank.
TERRACE_API void alltoall(communicator& comm, const stream_call& c);
/// Calls communicator::gather of blocks of c.sent elements in a stream; on the root c.received is size() times as many.
TERRACE_API void gather(communicator& comm, const stream_call& c, int root);
/// Calls communicator::scatter of blocks of c.received elements in a stream; on the root c.sent is size() times as
/// many.
TERRACE_API void scatter(communicator& comm, const stream_call& c, int root);
/// Calls communicator::broadcast of c.sent elements in a stream; recv is send, and c.received the same count.
TERRACE_API void broadcast(communicator& comm, const stream_call& c, int root);
/// Calls communicator::reduce of c.sent elements in a stream; on the root c.received is the same.
TERRACE_API void reduce(communicator& comm, const stream_call& c, int root, reduce_op op);

/// Returns the stream_call of two buffers.
template <class S, data_element T>
requires detail::sends<S, T> stream_call stream_call_of(device_span<S> send, device_span<T> recv, CUstream_st* stream) {
    return {send.data(), recv.data(), send.size(), recv.size(), data_element_type_of<T>, stream};
}

/// Calls communicator::allreduce in place in a stream.
template <element T>
void allreduce(communicator& comm, device_span<T> data, reduce_op op, CUstream_st* stream) {
    allreduce(comm, stream_call_of(data, data, stream), op);
}
/// Calls communicator::allreduce in a stream.
template <class S, element T>
requires detail::sends<S, T>
void allreduce(communicator& comm, device_span<S> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
    allreduce(comm, stream_call_of(send, recv, stream), op);
}
/// Calls communicator::reduce_scatter of equal blocks in a stream.
template <class S, element T>
requires detail::sends<S, T>
void reduce_scatter(communicator& comm, device_span<S> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
    reduce_scatter(comm, stream_call_of(send, recv, stream), op);
}
/// Calls communicator::reduce_scatter of blocks of the given counts in a stream.
template <class S, element T>
requires detail::sends<S, T>
void reduce_scatter(communicator& comm, device_span<S> send, device_span<T> recv, std::span<const std::int64_t> counts,
                    reduce_op op, CUstream_st* stream) {
    reduce_scatter(comm, stream_call_of(send, recv, stream), counts, op);
}
/// Calls communicator::allgather of equal blocks in a stream.
template <class S, data_element T>
requires detail::sends<S, T>
void allgather(communicator& comm, device_span<S> send, device_span<T> recv, CUstream_st* stream) {
    allgather(comm, stream_call_of(send, recv, stream));
}
/// Calls communicator::allgather of blocks of the given counts in a stream.
template <class S, data_element T>
requires detail::sends<S, T>
void allgather(communicator& comm, device_span<S> send, device_span<T> recv, std::span<const std::int64_t> counts,
               CUstream_st* stream) {
    allgather(comm, stream_call_of(send, recv, stream), counts);
}
/// Calls communicator::alltoall in a stream.
template <class S, data_element T>
requires detail::sends<S, T>
void alltoall(communicator& comm, device_span<S> send, device_span<T> recv, CUstream_st* stream) {
    alltoall(comm, stream_call_of(send, recv, stream));
}
/// Calls communicator::gather in a stream.
template <class S, data_element T>
requires detail::sends<S, T>
void gather(communicator& comm, device_span<S> send, device_span<T> recv, int root, CUstream_st* stream) {
    gather(comm, stream_call_of(send, recv, stream), root);
}
/// Calls communicator::scatter in a stream.
template <class S, data_element T>
requires detail::sends<S, T>
void scatter(communicator& comm, device_span<S> send, device_span<T> recv, int root, CUstream_st* stream) {
    scatter(comm, stream_call_of(send, recv, stream), root);
}
/// Calls communicator::broadcast in a stream.
template <data_element T>
void broadcast(communicator& comm, device_span<T> data, int root, CUstream_st* stream) {
    broadcast(comm, stream_call_of(data, data, stream), root);
}
/// Calls communicator::reduce in a stream.
template <class S, element T>
requires detail::sends<S, T>
void reduce(communicator& comm, device_span<S> send, device_span<T> recv, int root, reduce_op op, CUstream_st* stream) {
    reduce(comm, stream_call_of(send, recv, stream), root, op);
}

/// Returns when all calls of device buffers made so far are complete. Unlike cudaStreamSynchronize, it also ends if
/// another rank has ended. @throws transport_error, timeout_error
TERRACE_API void synchronize(communicator& comm);

}  // namespace terrace::nccl
