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
/// or whose MPI does not accept addresses of devices. A vector is cut into chunks. At one time a chunk is copied from
/// the device, some are reduced by the host by the plan, and one is copied back. After the first call of a shape no
/// memory is allocated. Move-only. To be used by the communicator's thread.
///
/// Each call below does what the member of `communicator` with its name does, on buffers of the device. It begins when
/// the work that is in `stream` is done, and returns when its result is on the device. It starts one call of the
/// communicator per chunk, so that all ranks must use chunks of one size. Blocks have one count; for blocks of several
/// counts use terrace::nccl, or copy to the host.
///
/// All throw as the communicator's calls do, and transport_error if CUDA fails: the communicator is then broken for the
/// other ranks, which learn of it within their timeout.
class TERRACE_API staging {
public:
    static constexpr std::size_t usual_chunk = std::size_t{4} << 20;  ///< [bytes]

    /// @param comm must outlive this   @param device of this rank   @param o says where the module is
    /// (options::gpu_module)   @param chunk [bytes] of the longer buffer, the same on all ranks
    /// @throws transport_error if there is no usable device or CUDA, with the reason and the remedy
    explicit staging(communicator& comm, int device, const options& o = {}, std::size_t chunk = usual_chunk);
    staging(staging&& other) noexcept;
    staging& operator=(staging&& other) noexcept;
    ~staging();

    /// Does communicator::allreduce. @throws usage_error if a chunk holds no element, and as above
    template <class S, element T>
    requires detail::sends<S, T>
    void allreduce(device_span<S> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
        allreduce(nccl::stream_call_of(send, recv, stream), op);
    }
    /// Does communicator::allreduce in place. @throws as above
    template <element T>
    void allreduce(device_span<T> data, reduce_op op, CUstream_st* stream) {
        allreduce(nccl::stream_call_of(data, data, stream), op);
    }
    /// Does communicator::reduce_scatter of equal blocks. @throws usage_error if a chunk does not hold an element of
    /// each block, and as above
    template <class S, element T>
    requires detail::sends<S, T>
    void reduce_scatter(device_span<S> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
        reduce_scatter(nccl::stream_call_of(send, recv, stream), op);
    }
    /// Does communicator::allgather of equal blocks. @throws as reduce_scatter
    template <class S, data_element T>
    requires detail::sends<S, T>
    void allgather(device_span<S> send, device_span<T> recv, CUstream_st* stream) {
        allgather(nccl::stream_call_of(send, recv, stream));
    }
    /// Does communicator::alltoall. @throws as reduce_scatter
    template <class S, data_element T>
    requires detail::sends<S, T>
    void alltoall(device_span<S> send, device_span<T> recv, CUstream_st* stream) {
        alltoall(nccl::stream_call_of(send, recv, stream));
    }
    /// Does communicator::gather of equal blocks. @throws as reduce_scatter
    template <class S, data_element T>
    requires detail::sends<S, T>
    void gather(device_span<S> send, device_span<T> recv, int root, CUstream_st* stream) {
        gather(nccl::stream_call_of(send, recv, stream), root);
    }
    /// Does communicator::scatter of equal blocks. @throws as reduce_scatter
    template <class S, data_element T>
    requires detail::sends<S, T>
    void scatter(device_span<S> send, device_span<T> recv, int root, CUstream_st* stream) {
        scatter(nccl::stream_call_of(send, recv, stream), root);
    }
    /// Does communicator::broadcast. @throws as allreduce
    template <data_element T>
    void broadcast(device_span<T> data, int root, CUstream_st* stream) {
        broadcast(nccl::stream_call_of(data, data, stream), root);
    }
    /// Does communicator::reduce. @throws as allreduce
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
