#pragma once

#include <terrace/export.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <terrace/communicator.hpp>

struct CUstream_st;  // CUDA's cudaStream_t is a pointer to it, so that this header includes none of CUDA's

namespace terrace {

/// Elements in the memory of a device. Does not own them, and never dereferences its address on the host.
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
/// The send buffer of a call whose receive buffer has elements T: elements T or const T.
template <class S, class T>
concept sends = std::same_as<std::remove_const_t<S>, T>;
}  // namespace detail

}  // namespace terrace

/// Collectives of device buffers by a plan, through NCCL, on communicators that <terrace/nccl.hpp> creates or that
/// use_device() has given a device.
namespace terrace::nccl {

/// Chooses the rank's number on its machine node, modulo the number of devices there, where a device is asked for.
inline constexpr int device_by_rank = -1;

/// Lets a communicator that has none use the given device of this rank: its calls accept buffers there from now on, and
/// parts made of it later have the device, too. NCCL's unique id goes the way by which the ranks have found one another
/// (MPI, a store). Waits for all calls in flight. Collective. If it fails the communicator is as it was.
/// @throws transport_error on all ranks if a rank has no usable device or NCCL, naming it; timeout_error
/// @throws usage_error if the communicator has a device, or the plan has stages of provider mpi that cannot run here
TERRACE_API void use_device(communicator& comm, int device = device_by_rank);

/// Returns the stream of the device in which the members of `communicator` put calls of device buffers, which begin at
/// once. It belongs to the communicator. @throws usage_error if that has no device
TERRACE_API CUstream_st* stream_of(communicator& comm);

// Each call below does what the member of `communicator` with its name does, and returns at once: the call runs after
// the work that is in `stream` when it is made, and work that is put into the stream later runs after the call. The
// buffers belong to the call until then. A failure shows in a later call, or in synchronize().
//
// The first call of a shape compares the calls of all ranks (options::check) and allocates memory. Later calls of that
// shape may be captured into a CUDA graph. The caller orders replays of graphs against each other and against other
// calls, in the same way on all ranks.
//
// All throw usage_error, plan_error, transport_error and timeout_error as the members do.

/// The buffers of a call by address, count and type.
struct stream_call {
    const void* send;            ///< on the device
    void* recv;                  ///< on the device
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

/// Returns when all calls made so far are complete. Unlike cudaStreamSynchronize it also returns when another rank is
/// gone. @throws transport_error, timeout_error
TERRACE_API void synchronize(communicator& comm);

}  // namespace terrace::nccl
