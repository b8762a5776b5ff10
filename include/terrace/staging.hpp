#pragma once

#include <memory>

#include <terrace/nccl.hpp>

namespace terrace {

/// Collectives of device buffers over any communicator, through pinned memory of the host: for where NCCL is missing or
/// MPI takes no pointers to devices. A vector goes in chunks, of which one is copied from the device, some are under
/// way by the plan (reduced by the host), and one is copied back, all at once; no memory is allocated after the first
/// call of a shape. Move-only. All ranks use the same chunk. Belongs to the communicator's thread.
///
/// Every call begins when what is in `stream` is done, and returns when its result is on the device. It starts one call
/// of the communicator per chunk. All throw as the communicator's calls do, and transport_error where CUDA fails, which
/// leaves the communicator broken for the others, within its timeout.
class TERRACE_API staging {
public:
    static constexpr std::size_t usual_chunk = std::size_t{4} << 20;  ///< [bytes]

    /// @param comm must outlive this  @param device of this rank  @param o where the module is (options::gpu_module)
    /// @throws transport_error where there is no usable device or CUDA, with the reason and what to do; usage_error
    explicit staging(communicator& comm, int device, const options& o = {}, std::size_t chunk = usual_chunk);
    staging(staging&& other) noexcept;
    staging& operator=(staging&& other) noexcept;
    ~staging();

    template <element T>
    void allreduce(device_span<const T> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
        allreduce(nccl::stream_call_of<T>(send, recv, stream), op);
    }
    template <element T>
    void allreduce(device_span<T> data, reduce_op op, CUstream_st* stream) {
        allreduce(nccl::stream_call_of<T>(data, data, stream), op);
    }
    template <element T>
    void reduce_scatter(device_span<const T> send, device_span<T> recv, reduce_op op, CUstream_st* stream) {
        reduce_scatter(nccl::stream_call_of<T>(send, recv, stream), op);
    }
    template <element T>
    void allgather(device_span<const T> send, device_span<T> recv, CUstream_st* stream) {
        allgather(nccl::stream_call_of<T>(send, recv, stream));
    }
    template <element T>
    void broadcast(device_span<T> data, int root, CUstream_st* stream) {
        broadcast(nccl::stream_call_of<T>(data, data, stream), root);
    }
    template <element T>
    void reduce(device_span<const T> send, device_span<T> recv, int root, reduce_op op, CUstream_st* stream) {
        reduce(nccl::stream_call_of<T>(send, recv, stream), root, op);
    }

    /// For Terrace's own parts.
    class stager;
    explicit staging(std::unique_ptr<stager> s) noexcept;

private:
    using call = nccl::stream_call;
    void allreduce(const call& c, reduce_op op);
    void reduce_scatter(const call& c, reduce_op op);
    void allgather(const call& c);
    void broadcast(const call& c, int root);
    void reduce(const call& c, int root, reduce_op op);

    std::unique_ptr<stager> stager_;
};

}  // namespace terrace
