#pragma once

#include <terrace/export.hpp>

#include <memory>

#include <terrace/device.hpp>
#include <terrace/options.hpp>

namespace terrace {

namespace detail {
class stager;
struct staging_access;
}  // namespace detail

/// Collectives of device buffers over any communicator, through pinned memory of the host: for machines without NCCL,
/// or whose MPI does not accept device addresses. A vector is cut into chunks. While one chunk is copied from the
/// device, others are reduced by the host by the plan, and another is copied back. After the first call of a shape no
/// memory is allocated. Move-only. Only the communicator's thread may use it.
///
/// Each function below does the same as the member of `communicator` with its name, on device buffers. It begins when
/// the work in `stream` is done, and returns when its result is on the device. It makes one call of the communicator
/// per chunk, so all ranks must use the same chunk size. All blocks have one count; for blocks of several counts use
/// terrace::nccl, or copy to the host.
///
/// All throw as the communicator's calls do, and transport_error if CUDA fails. Other ranks then get a timeout_error,
/// and the communicator is broken for them.
class TERRACE_API staging {
public:
    static constexpr std::size_t usual_chunk = std::size_t{4} << 20;  ///< [bytes]

    /// Allocates pinned memory, streams and events. @param comm must outlive this   @param device of this rank
    /// @param o only options::gpu_module is used   @param chunk of the longer buffer [bytes], the same on all ranks
    /// @throws transport_error if there is no usable device or CUDA, with the reason and the remedy
    explicit staging(communicator& comm, int device, const options& o = {}, std::size_t chunk = usual_chunk);
    staging(staging&& other) noexcept;
    staging& operator=(staging&& other) noexcept;
    ~staging();

    /// Calls communicator::allreduce. @throws usage_error if a chunk holds no element; and as above
    template <class S, element T>
    requires detail::sends<S, T>
    void allreduce(device_span<S> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
        allreduce(nccl::stream_call_of(send, recv, stream), op);
    }
    /// Calls communicator::allreduce in place. @throws as above
    template <element T>
    void allreduce(device_span<T> data, reduce_op op, CUstream_st* stream) {
        allreduce(nccl::stream_call_of(data, data, stream), op);
    }
    /// Calls communicator::reduce_scatter with equal blocks. @throws usage_error if a chunk does not hold an element of
    /// each block; and as above
    template <class S, element T>
    requires detail::sends<S, T>
    void reduce_scatter(device_span<S> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
        reduce_scatter(nccl::stream_call_of(send, recv, stream), op);
    }
    /// Calls communicator::allgather with equal blocks. @throws as reduce_scatter
    template <class S, data_element T>
    requires detail::sends<S, T>
    void allgather(device_span<S> send, device_span<T> recv, CUstream_st* stream) {
        allgather(nccl::stream_call_of(send, recv, stream));
    }
    /// Calls communicator::alltoall. @throws as reduce_scatter
    template <class S, data_element T>
    requires detail::sends<S, T>
    void alltoall(device_span<S> send, device_span<T> recv, CUstream_st* stream) {
        alltoall(nccl::stream_call_of(send, recv, stream));
    }
    /// Calls communicator::gather with equal blocks. @throws as reduce_scatter
    template <class S, data_element T>
    requires detail::sends<S, T>
    void gather(device_span<S> send, device_span<T> recv, int root, CUstream_st* stream) {
        gather(nccl::stream_call_of(send, recv, stream), root);
    }
    /// Calls communicator::scatter with equal blocks. @throws as reduce_scatter
    template <class S, data_element T>
    requires detail::sends<S, T>
    void scatter(device_span<S> send, device_span<T> recv, int root, CUstream_st* stream) {
        scatter(nccl::stream_call_of(send, recv, stream), root);
    }
    /// Calls communicator::broadcast. @throws as allreduce
    template <data_element T>
    void broadcast(device_span<T> data, int root, CUstream_st* stream) {
        broadcast(nccl::stream_call_of(data, data, stream), root);
    }
    /// Calls communicator::reduce. @throws as allreduce
    template <class S, element T>
    requires detail::sends<S, T>
    void reduce(device_span<S> send, device_span<T> recv, int root, reduce_op op, CUstream_st* stream) {
        reduce(nccl::stream_call_of(send, recv, stream), root, op);
    }

private:
    friend struct detail::staging_access;
    explicit staging(std::unique_ptr<detail::stager> s) noexcept;

    using call = nccl::stream_call;
    void allreduce(const call& c, reduce_op op);
    void reduce_scatter(const call& c, reduce_op op);
    void allgather(const call& c);
    void alltoall(const call& c);
    void gather(const call& c, int root);
    void scatter(const call& c, int root);
    void broadcast(const call& c, int root);
    void reduce(const call& c, int root, reduce_op op);

    std::unique_ptr<detail::stager> stager_;
};

}  // namespace terrace
