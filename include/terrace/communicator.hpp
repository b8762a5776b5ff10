#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <terrace/error.hpp>
#include <terrace/export.hpp>
#include <terrace/options.hpp>
#include <terrace/plan.hpp>
#include <terrace/request.hpp>
#include <terrace/types.hpp>
#include <terrace/window.hpp>

namespace terrace {

struct call_shape;

/// A set of ranks that run collectives by a plan. Move-only; a moved-from communicator may only be assigned to or
/// destroyed. Created by `terrace::mpi::create`, `terrace::nccl::create` or `terrace::loopback::run`. Creation and
/// destruction are collective; destroying a broken one is local. Belongs to one thread at a time. All ranks call the
/// same collectives in the same order; options::check says when a difference is found.
class TERRACE_API communicator {
public:
    communicator(communicator&&) noexcept;
    communicator& operator=(communicator&&) noexcept;
    ~communicator();

    /// This process's rank, the one it has in the communicator that this one was created from.
    int rank() const noexcept;
    int size() const noexcept;

    /// data[i] = reduction over all ranks of data[i]; `data` has the same count on every rank and may be empty.
    /// Bitwise equal on all ranks, and from run to run for the same plan and count.
    ///
    /// All collectives throw usage_error where a call is wrong in itself or differs between ranks, plan_error where the
    /// plan has no rules for them, timeout_error and transport_error.
    template <element T>
    void allreduce(std::span<T> data, reduce_op op = reduce_op::sum) {
        allreduce(data.data(), data.data(), count_of(data), element_type_of<T>, op);
    }
    /// recv[i] = reduction over all ranks of send[i]. The buffers have the same count, and are the same or do not
    /// overlap.
    template <element T>
    void allreduce(std::span<const T> send, std::span<T> recv, reduce_op op = reduce_op::sum) {
        expect(send.size() == recv.size(), "allreduce", send.size(), recv.size());
        allreduce(send.data(), recv.data(), count_of(recv), element_type_of<T>, op);
    }

    /// recv[i] = reduction over all ranks of send[rank() * n + i], n = recv.size(), the same on every rank; send holds
    /// size() * n elements. In place, recv is the rank's own block of send.
    template <element T>
    void reduce_scatter(std::span<const T> send, std::span<T> recv, reduce_op op = reduce_op::sum) {
        expect(send.size() == recv.size() * static_cast<std::size_t>(size()), "reduce_scatter", send.size(),
               recv.size());
        reduce_scatter(send.data(), recv.data(), count_of(recv), element_type_of<T>, op);
    }
    /// The same for blocks of counts[r] elements, by rank; `counts` is the same on every rank.
    template <element T>
    void reduce_scatter(std::span<const T> send, std::span<T> recv, std::span<const std::int64_t> counts,
                        reduce_op op = reduce_op::sum) {
        expect_blocks("reduce_scatter", counts, count_of(send), count_of(recv));
        reduce_scatter(send.data(), recv.data(), counts, element_type_of<T>, op);
    }

    /// recv[r * n + i] = rank r's send[i], n = send.size(), the same on every rank; recv holds size() * n elements. In
    /// place, send is the rank's own block of recv.
    template <element T>
    void allgather(std::span<const T> send, std::span<T> recv) {
        expect(recv.size() == send.size() * static_cast<std::size_t>(size()), "allgather", send.size(), recv.size());
        allgather(send.data(), recv.data(), count_of(send), element_type_of<T>);
    }
    /// The same for blocks of counts[r] elements, by rank; `counts` is the same on every rank.
    template <element T>
    void allgather(std::span<const T> send, std::span<T> recv, std::span<const std::int64_t> counts) {
        expect_blocks("allgather", counts, count_of(recv), count_of(send));
        allgather(send.data(), recv.data(), counts, element_type_of<T>);
    }

    /// data[i] = the root's data[i]; the same count on every rank.
    template <element T>
    void broadcast(std::span<T> data, int root) {
        broadcast(data.data(), count_of(data), element_type_of<T>, root);
    }

    /// On the root recv[i] = reduction over all ranks of send[i]; elsewhere recv is not touched and may be empty. The
    /// root's buffers are the same or do not overlap.
    template <element T>
    void reduce(std::span<const T> send, std::span<T> recv, int root, reduce_op op = reduce_op::sum) {
        expect(rank() != root || send.size() == recv.size(), "reduce", send.size(), recv.size());
        reduce(send.data(), recv.data(), count_of(send), element_type_of<T>, root, op);
    }

    // The same, started: any number may be in flight, and complete in any order. Ranks start them in the same order.
    // Calls move along while their communicator's thread is in Terrace: in any call, test() or wait().
    template <element T>
    request allreduce_async(std::span<T> data, reduce_op op = reduce_op::sum) {
        return allreduce_async(data.data(), data.data(), count_of(data), element_type_of<T>, op);
    }
    template <element T>
    request allreduce_async(std::span<const T> send, std::span<T> recv, reduce_op op = reduce_op::sum) {
        expect(send.size() == recv.size(), "allreduce", send.size(), recv.size());
        return allreduce_async(send.data(), recv.data(), count_of(recv), element_type_of<T>, op);
    }
    template <element T>
    request reduce_scatter_async(std::span<const T> send, std::span<T> recv, reduce_op op = reduce_op::sum) {
        expect(send.size() == recv.size() * static_cast<std::size_t>(size()), "reduce_scatter", send.size(),
               recv.size());
        return reduce_scatter_async(send.data(), recv.data(), count_of(recv), element_type_of<T>, op);
    }
    template <element T>
    request allgather_async(std::span<const T> send, std::span<T> recv) {
        expect(recv.size() == send.size() * static_cast<std::size_t>(size()), "allgather", send.size(), recv.size());
        return allgather_async(send.data(), recv.data(), count_of(send), element_type_of<T>);
    }
    template <element T>
    request broadcast_async(std::span<T> data, int root) {
        return broadcast_async(data.data(), count_of(data), element_type_of<T>, root);
    }
    template <element T>
    request reduce_async(std::span<const T> send, std::span<T> recv, int root, reduce_op op = reduce_op::sum) {
        expect(rank() != root || send.size() == recv.size(), "reduce", send.size(), recv.size());
        return reduce_async(send.data(), recv.data(), count_of(send), element_type_of<T>, root, op);
    }

    // The same by address, count (of a block, where there are blocks) and type.
    void allreduce(const void* send, void* recv, std::int64_t count, element_type type, reduce_op op);
    void reduce_scatter(const void* send, void* recv, std::int64_t count, element_type type, reduce_op op);
    void reduce_scatter(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type,
                        reduce_op op);
    void allgather(const void* send, void* recv, std::int64_t count, element_type type);
    void allgather(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type);
    void broadcast(void* data, std::int64_t count, element_type type, int root);
    void reduce(const void* send, void* recv, std::int64_t count, element_type type, int root, reduce_op op);

    request allreduce_async(const void* send, void* recv, std::int64_t count, element_type type, reduce_op op);
    request reduce_scatter_async(const void* send, void* recv, std::int64_t count, element_type type, reduce_op op);
    request allgather_async(const void* send, void* recv, std::int64_t count, element_type type);
    request broadcast_async(void* data, std::int64_t count, element_type type, int root);
    request reduce_async(const void* send, void* recv, std::int64_t count, element_type type, int root, reduce_op op);

    /// Memory for `count` elements, for buffers that calls need not copy inside a machine node. Collective; the same
    /// count and type on every rank. Any memory will do for calls, which ranks need not choose alike. Calls that are in
    /// flight are completed first. Where memory cannot be shared it is plain memory, and options::log gets a warning.
    /// @throws usage_error where ranks differ, timeout_error, transport_error, std::bad_alloc
    template <element T>
    window<T> allocate(std::size_t count) {
        return {allocate_bytes(count, sizeof(T)), count};
    }

    /// A communicator of the ranks that give the same color, numbered by ascending key and, where keys are equal, in
    /// the order they have here; nothing where the color is negative. Collective over all ranks. A plan is made for the
    /// part of this one's machine that the ranks of the new one are on, by one of them. The two are independent: either
    /// may be destroyed first, and they may be used by turns, in the same order on all ranks. No call may be in flight.
    std::optional<communicator> split(int color, int key = 0);

    /// What an allreduce of `bytes` runs: stages innermost first, e.g. "node:4 scatter direct > core:2 scatter ring".
    std::string shape(std::int64_t bytes) const;

    /// For Terrace's own parts.
    class core;
    explicit communicator(std::unique_ptr<core> c) noexcept;
    core& inside() noexcept { return *core_; }

private:
    template <class T>
    static std::int64_t count_of(std::span<T> data) noexcept {
        return static_cast<std::int64_t>(data.size());
    }
    // Throw usage_error naming the counts.
    static void expect(bool fits, const char* call, std::size_t send, std::size_t recv);
    void expect_blocks(const char* call, std::span<const std::int64_t> counts, std::int64_t all,
                       std::int64_t own) const;

    std::shared_ptr<std::byte> allocate_bytes(std::size_t count, std::size_t element);
    request start(const call_shape& call, const void* send, void* recv);

    std::unique_ptr<core> core_;
};

}  // namespace terrace
