#pragma once

#include <terrace/export.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>

#include <terrace/buffer.hpp>
#include <terrace/error.hpp>
#include <terrace/message.hpp>
#include <terrace/options.hpp>
#include <terrace/plan.hpp>
#include <terrace/request.hpp>
#include <terrace/statistics.hpp>
#include <terrace/types.hpp>
#include <terrace/window.hpp>

namespace terrace {

namespace detail {
struct communicator_access;
class communicator_core;
}  // namespace detail

/// A set of ranks that run collectives by a plan. Created by terrace::mpi::create, terrace::ucx::create,
/// terrace::nccl::create or terrace::loopback::run. Move-only; a moved-from communicator may only be assigned to or
/// destroyed. Creation and destruction are collective; the destruction of a broken communicator is local. Only one
/// thread at a time may use a communicator, unless options::threads is `any`.
///
/// All collectives:
///
/// * All ranks make the same calls in the same order. options::check sets when differences are detected.
/// * Counts are numbers of elements, 0 or more, and the same on every rank unless a comment below says otherwise. Type,
///   op and root are the same on every rank.
/// * A buffer is any contiguous range: std::span, std::vector, std::array, window, C array. On a communicator of
///   terrace::nccl::create it may lie in device memory: pass a std::span of it.
/// * Buffers belong to the caller. A call uses them until it returns, an `_async` call until its request is complete.
///   Send buffers are only read.
/// * The send and receive buffers of a call are the same (the call then works in place) or do not overlap. If buffers
///   hold blocks, in place means that the shorter buffer is the rank's own block of the longer one. alltoall does not
///   work in place.
/// * A reduction has the same bits on all ranks that get the result, and from run to run for the same plan and count.
///
/// All collectives throw
///
/// * usage_error if a call is invalid, if calls differ between ranks, or if an earlier call failed,
/// * plan_error if the plan has no rules for the collective, memory_error if the system has no memory for it,
/// * rank_failed_error if ranks have failed while this rank waits (options::failure_timeout),
/// * timeout_error if other ranks did not make the call within options::timeout,
/// * transport_error if a library below Terrace failed.
///
/// After one of the last three, a memory_error, or a usage_error for calls that differ, the communicator is broken:
/// each later call throws usage_error.
class TERRACE_API communicator {
public:
    communicator(communicator&&) noexcept;
    communicator& operator=(communicator&&) noexcept;
    ~communicator();

    /// Returns the rank of this process, 0 ... size() - 1, as numbered by MPI, the store, the launcher or split().
    int rank() const noexcept;
    /// Returns the number of ranks.
    int size() const noexcept;

    // ---- allreduce

    /// Sets data[i] to the reduction of data[i] over all ranks.
    template <mutable_element_buffer R>
    void allreduce(R&& data, reduction op = reduce_op::sum) {
        allreduce(at(data), at(data), count_of(data), type_of<R>(), op);
    }
    /// Starts the same call.
    template <mutable_element_buffer R>
    request allreduce_async(R&& data, reduction op = reduce_op::sum) {
        return allreduce_async(at(data), at(data), count_of(data), type_of<R>(), op);
    }
    /// Sets recv[i] to the reduction of send[i] over all ranks. Both buffers have the same count.
    template <element_buffer S, mutable_buffer_like<S> R>
    void allreduce(S&& send, R&& recv, reduction op = reduce_op::sum) {
        run("allreduce", [&] { return allreduce_async(send, recv, op); });
    }
    /// Starts the same call.
    template <element_buffer S, mutable_buffer_like<S> R>
    request allreduce_async(S&& send, R&& recv, reduction op = reduce_op::sum) {
        expect_equal("allreduce", count_of(send), count_of(recv));
        return allreduce_async(at(send), at(recv), count_of(send), type_of<S>(), op);
    }
    /// Does the same with untyped buffers. @param count elements of each buffer
    void allreduce(const void* send, void* recv, std::int64_t count, element_type type, reduction op) {
        run("allreduce", [&] { return allreduce_async(send, recv, count, type, op); });
    }
    /// Starts the same call with untyped buffers. @param count elements of each buffer
    request allreduce_async(const void* send, void* recv, std::int64_t count, element_type type, reduction op);
    /// Starts an allreduce of a sum, and adds to `rounding_errors` this rank's rounding errors on the wire
    /// (options::rounds_on_wire). Their sum over all ranks is the error of the results; a later sum may include it.
    /// Nothing is added if nothing is rounded, or if a group joins the call with others. @param rounding_errors `count`
    /// elements of `type`, which must live until the call is complete
    request allreduce_async(const void* send, void* recv, std::int64_t count, element_type type, void* rounding_errors);

    // ---- reduce_scatter

    /// Sets recv[i] to the reduction of send[rank() * n + i] over all ranks, where n is the count of recv. send holds
    /// size() * n elements: block r is for rank r.
    template <element_buffer S, mutable_buffer_like<S> R>
    void reduce_scatter(S&& send, R&& recv, reduction op = reduce_op::sum) {
        run("reduce_scatter", [&] { return reduce_scatter_async(send, recv, op); });
    }
    /// Starts the same call.
    template <element_buffer S, mutable_buffer_like<S> R>
    request reduce_scatter_async(S&& send, R&& recv, reduction op = reduce_op::sum) {
        expect_blocks("reduce_scatter", count_of(send), count_of(recv), {"send", "recv"});
        return reduce_scatter_async(at(send), at(recv), count_of(recv), type_of<S>(), op);
    }
    /// Does the same with blocks of counts[r] elements for rank r, one after the other in send. recv holds
    /// counts[rank()] elements. `counts` has size() numbers, the same on every rank, and is read before this returns.
    template <element_buffer S, mutable_buffer_like<S> R>
    void reduce_scatter(S&& send, R&& recv, std::span<const std::int64_t> counts, reduction op = reduce_op::sum) {
        run("reduce_scatter", [&] { return reduce_scatter_async(send, recv, counts, op); });
    }
    /// Starts the same call.
    template <element_buffer S, mutable_buffer_like<S> R>
    request reduce_scatter_async(S&& send, R&& recv, std::span<const std::int64_t> counts,
                                 reduction op = reduce_op::sum) {
        expect_blocks("reduce_scatter", counts, count_of(send), count_of(recv));
        return reduce_scatter_async(at(send), at(recv), counts, type_of<S>(), op);
    }
    /// Does the same with untyped buffers. @param count elements of one block
    void reduce_scatter(const void* send, void* recv, std::int64_t count, element_type type, reduction op) {
        run("reduce_scatter", [&] { return reduce_scatter_async(send, recv, count, type, op); });
    }
    /// Starts the same call with untyped buffers. @param count elements of one block
    request reduce_scatter_async(const void* send, void* recv, std::int64_t count, element_type type, reduction op);
    /// Does the same with untyped buffers. @param counts elements of each block, by rank
    void reduce_scatter(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type,
                        reduction op) {
        run("reduce_scatter", [&] { return reduce_scatter_async(send, recv, counts, type, op); });
    }
    /// Starts the same call with untyped buffers. @param counts elements of each block; read before this returns
    request reduce_scatter_async(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type,
                                 reduction op);

    // ---- allgather

    /// Sets recv[r * n + i] to send[i] of rank r, where n is the count of send. recv holds size() * n elements. The
    /// elements may be bytes (char, unsigned char, std::byte).
    template <data_buffer S, mutable_buffer_like<S> R>
    void allgather(S&& send, R&& recv) {
        run("allgather", [&] { return allgather_async(send, recv); });
    }
    /// Starts the same call.
    template <data_buffer S, mutable_buffer_like<S> R>
    request allgather_async(S&& send, R&& recv) {
        expect_blocks("allgather", count_of(recv), count_of(send), {"recv", "send"});
        return allgather_async(at(send), at(recv), count_of(send), type_of<S>());
    }
    /// Does the same with blocks of counts[r] elements from rank r, one after the other in recv. send holds
    /// counts[rank()] elements. `counts` has size() numbers, the same on every rank, and is read before this returns.
    template <data_buffer S, mutable_buffer_like<S> R>
    void allgather(S&& send, R&& recv, std::span<const std::int64_t> counts) {
        run("allgather", [&] { return allgather_async(send, recv, counts); });
    }
    /// Starts the same call.
    template <data_buffer S, mutable_buffer_like<S> R>
    request allgather_async(S&& send, R&& recv, std::span<const std::int64_t> counts) {
        expect_blocks("allgather", counts, count_of(recv), count_of(send));
        return allgather_async(at(send), at(recv), counts, type_of<S>());
    }
    /// Does the same with untyped buffers. @param count elements of one block
    void allgather(const void* send, void* recv, std::int64_t count, element_type type) {
        run("allgather", [&] { return allgather_async(send, recv, count, type); });
    }
    /// Starts the same call with untyped buffers. @param count elements of one block
    request allgather_async(const void* send, void* recv, std::int64_t count, element_type type);
    /// Does the same with untyped buffers. @param counts elements of each block, by rank
    void allgather(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type) {
        run("allgather", [&] { return allgather_async(send, recv, counts, type); });
    }
    /// Starts the same call with untyped buffers. @param counts elements of each block; read before this returns
    request allgather_async(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type);

    // ---- alltoall

    /// Sets recv[r * n + i] to send[rank() * n + i] of rank r, where n is the count of a block: each buffer holds
    /// size() * n elements, and block r of send goes to rank r. The two buffers must not overlap: alltoall does not
    /// work in place. The elements may be bytes (char, unsigned char, std::byte).
    template <data_buffer S, mutable_buffer_like<S> R>
    void alltoall(S&& send, R&& recv) {
        alltoall(at(send), at(recv), expect_block_each("alltoall", count_of(send), count_of(recv)), type_of<S>());
    }
    /// Starts the same call.
    template <data_buffer S, mutable_buffer_like<S> R>
    request alltoall_async(S&& send, R&& recv) {
        return alltoall_async(at(send), at(recv), expect_block_each("alltoall", count_of(send), count_of(recv)),
                              type_of<S>());
    }
    /// Does the same with untyped buffers. @param count elements of one block
    void alltoall(const void* send, void* recv, std::int64_t count, element_type type) {
        run("alltoall", [&] { return alltoall_async(send, recv, count, type); });
    }
    /// Starts the same call with untyped buffers. @param count elements of one block
    request alltoall_async(const void* send, void* recv, std::int64_t count, element_type type);

    // ---- alltoallv

    /// Exchanges blocks of any lengths; each rank knows only the lengths of the blocks that it sends. send_counts[r]
    /// elements go to rank r; these blocks lie side by side in send, by rank. Sets recv_counts[r] to the count received
    /// from rank r, and recv to the received blocks, side by side by rank. Elements of recv behind them are unchanged.
    /// @param most an upper bound of the elements of any block on any rank; the same on every rank
    /// @throws usage_error on a rank that receives more elements than recv holds, and on no other rank: its recv_counts
    /// hold the counts, recv is unchanged, and the communicator stays usable
    template <data_buffer S, mutable_buffer_like<S> R>
    void alltoallv(S&& send, std::span<const std::int64_t> send_counts, R&& recv, std::span<std::int64_t> recv_counts,
                   std::int64_t most) {
        run("alltoallv", [&] { return alltoallv_async(send, send_counts, recv, recv_counts, most); });
    }
    /// Starts the same call. send_counts are read before this returns; recv and recv_counts belong to the call. Calls
    /// that are started later begin once the lengths of its blocks are known. The request throws the errors above.
    template <data_buffer S, mutable_buffer_like<S> R>
    request alltoallv_async(S&& send, std::span<const std::int64_t> send_counts, R&& recv,
                            std::span<std::int64_t> recv_counts, std::int64_t most) {
        expect_sum("alltoallv", send_counts, count_of(send));
        return alltoallv_async(at(send), send_counts, at(recv), count_of(recv), recv_counts, most, type_of<S>());
    }
    /// Does the same with untyped buffers. @param capacity elements of recv
    void alltoallv(const void* send, std::span<const std::int64_t> send_counts, void* recv, std::int64_t capacity,
                   std::span<std::int64_t> recv_counts, std::int64_t most, element_type type) {
        run("alltoallv", [&] { return alltoallv_async(send, send_counts, recv, capacity, recv_counts, most, type); });
    }
    /// Starts the same call with untyped buffers. @param capacity elements of recv
    request alltoallv_async(const void* send, std::span<const std::int64_t> send_counts, void* recv,
                            std::int64_t capacity, std::span<std::int64_t> recv_counts, std::int64_t most,
                            element_type type);

    // ---- gather

    /// Sets recv[r * n + i] on rank `root` to send[i] of rank r, where n is the count of send. recv holds size() * n
    /// elements on the root; other ranks do not use it, and may pass an empty one. In place, the root's send is its own
    /// block of recv. The elements may be bytes (char, unsigned char, std::byte).
    template <data_buffer S, mutable_buffer_like<S> R>
    void gather(S&& send, R&& recv, int root) {
        run("gather", [&] { return gather_async(send, recv, root); });
    }
    /// Starts the same call.
    template <data_buffer S, mutable_buffer_like<S> R>
    request gather_async(S&& send, R&& recv, int root) {
        if (rank() == root) expect_blocks("gather", count_of(recv), count_of(send), {"recv", "send"});
        return gather_async(at(send), at(recv), count_of(send), type_of<S>(), root);
    }
    /// Does the same with untyped buffers. @param recv may be null on ranks other than `root`   @param count elements
    /// of one block
    void gather(const void* send, void* recv, std::int64_t count, element_type type, int root) {
        run("gather", [&] { return gather_async(send, recv, count, type, root); });
    }
    /// Starts the same call with untyped buffers. @param recv, count as above
    request gather_async(const void* send, void* recv, std::int64_t count, element_type type, int root);
    /// Does the same with blocks of counts[r] elements from rank r. @param counts the same on every rank; read before
    /// this returns
    void gather(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type, int root) {
        run("gather", [&] { return gather_async(send, recv, counts, type, root); });
    }
    /// Starts the same call with blocks of counts[r] elements from rank r. @param counts as above
    request gather_async(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type,
                         int root);

    /// Gathers blocks of any lengths; each rank knows only the length of its own block, which is send. Sets
    /// recv_counts[r] on rank `root` to the count received from rank r, and recv to these blocks, side by side by rank.
    /// Other ranks do not use recv and recv_counts, and may pass empty ones. Does not work in place.
    /// @throws usage_error on a root that receives more elements than recv holds, and on no other rank, as alltoallv()
    template <data_buffer S, mutable_buffer_like<S> R>
    void gatherv(S&& send, R&& recv, std::span<std::int64_t> recv_counts, int root) {
        gatherv(at(send), count_of(send), at(recv), count_of(recv), recv_counts, type_of<S>(), root);
    }
    /// Starts the same call. recv and recv_counts belong to the call, as in alltoallv_async().
    template <data_buffer S, mutable_buffer_like<S> R>
    request gatherv_async(S&& send, R&& recv, std::span<std::int64_t> recv_counts, int root) {
        return gatherv_async(at(send), count_of(send), at(recv), count_of(recv), recv_counts, type_of<S>(), root);
    }
    /// Does the same with untyped buffers. @param count elements of send   @param capacity elements of recv
    void gatherv(const void* send, std::int64_t count, void* recv, std::int64_t capacity,
                 std::span<std::int64_t> recv_counts, element_type type, int root) {
        run("gatherv", [&] { return gatherv_async(send, count, recv, capacity, recv_counts, type, root); });
    }
    /// Starts the same call with untyped buffers. @param count elements of send   @param capacity elements of recv
    request gatherv_async(const void* send, std::int64_t count, void* recv, std::int64_t capacity,
                          std::span<std::int64_t> recv_counts, element_type type, int root);

    // ---- scatter

    /// Sets recv[i] to send[rank() * n + i] of rank `root`, where n is the count of recv. send holds size() * n
    /// elements on the root; other ranks do not use it, and may pass an empty one. In place, the root's recv is its own
    /// block of send. The elements may be bytes (char, unsigned char, std::byte).
    template <data_buffer S, mutable_buffer_like<S> R>
    void scatter(S&& send, R&& recv, int root) {
        run("scatter", [&] { return scatter_async(send, recv, root); });
    }
    /// Starts the same call.
    template <data_buffer S, mutable_buffer_like<S> R>
    request scatter_async(S&& send, R&& recv, int root) {
        if (rank() == root) expect_blocks("scatter", count_of(send), count_of(recv), {"send", "recv"});
        return scatter_async(at(send), at(recv), count_of(recv), type_of<S>(), root);
    }
    /// Does the same with untyped buffers. @param send may be null on ranks other than `root`   @param count elements
    /// of one block
    void scatter(const void* send, void* recv, std::int64_t count, element_type type, int root) {
        run("scatter", [&] { return scatter_async(send, recv, count, type, root); });
    }
    /// Starts the same call with untyped buffers. @param send, count as above
    request scatter_async(const void* send, void* recv, std::int64_t count, element_type type, int root);
    /// Does the same with blocks of counts[r] elements for rank r. @param counts the same on every rank; read before
    /// this returns
    void scatter(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type, int root) {
        run("scatter", [&] { return scatter_async(send, recv, counts, type, root); });
    }
    /// Starts the same call with blocks of counts[r] elements for rank r. @param counts as above
    request scatter_async(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type,
                          int root);

    /// Scatters blocks of any lengths, which only the root knows: send_counts[r] elements for rank r, side by side in
    /// send by rank. Other ranks do not use send and send_counts, and may pass empty ones. Sets the first elements of
    /// recv to this rank's block. Does not work in place.
    /// @returns the number of elements of this rank's block
    /// @throws usage_error on a rank that receives more elements than recv holds, and on no other rank, as alltoallv()
    template <data_buffer S, mutable_buffer_like<S> R>
    std::int64_t scatterv(S&& send, std::span<const std::int64_t> send_counts, R&& recv, int root) {
        if (rank() == root) expect_sum("scatterv", send_counts, count_of(send));
        return scatterv(at(send), send_counts, at(recv), count_of(recv), type_of<S>(), root);
    }
    /// Starts the same call, as alltoallv_async(). @param count is set to the elements of this rank's block, and must
    /// live until the request is complete
    template <data_buffer S, mutable_buffer_like<S> R>
    request scatterv_async(S&& send, std::span<const std::int64_t> send_counts, R&& recv, int root,
                           std::int64_t& count) {
        if (rank() == root) expect_sum("scatterv", send_counts, count_of(send));
        return scatterv_async(at(send), send_counts, at(recv), count_of(recv), count, type_of<S>(), root);
    }
    /// Does the same with untyped buffers. @param capacity elements of recv
    std::int64_t scatterv(const void* send, std::span<const std::int64_t> send_counts, void* recv,
                          std::int64_t capacity, element_type type, int root) {
        std::int64_t count = 0;
        run("scatterv", [&] { return scatterv_async(send, send_counts, recv, capacity, count, type, root); });
        return count;
    }
    /// Starts the same call with untyped buffers. @param capacity elements of recv   @param count as above
    request scatterv_async(const void* send, std::span<const std::int64_t> send_counts, void* recv,
                           std::int64_t capacity, std::int64_t& count, element_type type, int root);

    // ---- broadcast

    /// Sets data[i] to data[i] of rank `root`. The elements may be bytes (char, unsigned char, std::byte).
    template <mutable_data_buffer R>
    void broadcast(R&& data, int root) {
        broadcast(at(data), count_of(data), type_of<R>(), root);
    }
    /// Starts the same call.
    template <mutable_data_buffer R>
    request broadcast_async(R&& data, int root) {
        return broadcast_async(at(data), count_of(data), type_of<R>(), root);
    }
    /// Does the same with an untyped buffer. @param count elements of the buffer
    void broadcast(void* data, std::int64_t count, element_type type, int root) {
        run("broadcast", [&] { return broadcast_async(data, count, type, root); });
    }
    /// Starts the same call with an untyped buffer. @param count elements of the buffer
    request broadcast_async(void* data, std::int64_t count, element_type type, int root);

    // ---- reduce

    /// Sets recv[i] on rank `root` to the reduction of send[i] over all ranks. On the root recv has the count of send.
    /// Other ranks do not use recv; theirs may be empty and overlap send.
    template <element_buffer S, mutable_buffer_like<S> R>
    void reduce(S&& send, R&& recv, int root, reduction op = reduce_op::sum) {
        run("reduce", [&] { return reduce_async(send, recv, root, op); });
    }
    /// Starts the same call.
    template <element_buffer S, mutable_buffer_like<S> R>
    request reduce_async(S&& send, R&& recv, int root, reduction op = reduce_op::sum) {
        if (rank() == root) expect_equal("reduce", count_of(send), count_of(recv));
        return reduce_async(at(send), at(recv), count_of(send), type_of<S>(), root, op);
    }
    /// Does the same with untyped buffers. @param recv may be null except on `root`   @param count elements of send
    void reduce(const void* send, void* recv, std::int64_t count, element_type type, int root, reduction op) {
        run("reduce", [&] { return reduce_async(send, recv, count, type, root, op); });
    }
    /// Starts the same call with untyped buffers. @param recv, count as above
    request reduce_async(const void* send, void* recv, std::int64_t count, element_type type, int root, reduction op);

    // ---- barrier

    /// Returns once every rank has called it. Other calls in flight may still be incomplete.
    void barrier() {
        run("barrier", [&] { return barrier_async(); });
    }
    /// Starts a barrier. The request is complete once every rank has started it.
    request barrier_async();

    // ---- groups of calls

    /// Opens a group: `_async` calls wait until the matching group_end(), which starts them. Groups may be nested; only
    /// the end of the outermost one starts calls. All ranks open the same groups around the same calls. Blocking calls,
    /// allocate() and split() throw usage_error while a group is open. Messages between two ranks and calls of device
    /// buffers start at once. With options::threads `any`, a group holds only calls of the thread that opened it.
    /// docs/guides/groups.md describes when groups are faster.
    void group_start();
    /// Opens a group with a number. Such groups start in the order of their numbers, regardless of the order and the
    /// threads in which they are made. The numbers of a communicator are 0, 1, 2, ..., each used once on each rank. A
    /// group waits until this rank has ended all groups with lower numbers. @throws usage_error if the number has been
    /// used, or a group is open
    void group_start(std::uint64_t number);
    /// Ends the group and starts its calls. Calls of at most 64 KiB with the same collective, type, operation and root
    /// are joined. Wait for the requests after this.
    /// @throws usage_error if no group is open; and as the collectives
    void group_end();

    // ---- point to point

    // Messages with the same source and tag are received in the order sent. Messages and collectives never wait for one
    // another. A message is received with the element type with which it was sent. Tags are 0 ... 2^31 - 1. Buffers
    // must be in host memory.

    /// Sends data to rank `to`, which may be this rank. Returns when the buffer may be reused: usually at once for up
    /// to 8 KiB, otherwise when the receiver has the data. docs/guides/messages.md describes when a send waits.
    /// @throws usage_error if an argument is invalid; and as the collectives
    template <data_buffer S>
    void send(S&& data, int to, int tag = 0) {
        send(at(data), count_of(data), type_of<S>(), to, tag);
    }
    /// Starts the same send. The buffer belongs to the send until the request is complete.
    template <data_buffer S>
    request send_async(S&& data, int to, int tag = 0) {
        return send_async(at(data), count_of(data), type_of<S>(), to, tag);
    }
    /// Receives a message with this tag from rank `from` (or any_source). It may be shorter than the buffer.
    /// @throws usage_error as send(), and if the message is longer than the buffer or has another type: the message is
    /// then lost, and the communicator stays usable
    template <mutable_data_buffer R>
    received recv(R&& data, int from, int tag = 0) {
        return recv(at(data), count_of(data), type_of<R>(), from, tag);
    }
    /// Starts the same receive. @param result is set when the request is complete; may be null
    template <mutable_data_buffer R>
    request recv_async(R&& data, int from, int tag = 0, received* result = nullptr) {
        return recv_async(at(data), count_of(data), type_of<R>(), from, tag, result);
    }
    /// Does the same with an untyped buffer. @param count elements to send
    void send(const void* data, std::int64_t count, element_type type, int to, int tag);
    /// Starts the same send with an untyped buffer. @param count elements to send
    request send_async(const void* data, std::int64_t count, element_type type, int to, int tag);
    /// Does the same with an untyped buffer. @param count elements that the buffer holds
    received recv(void* data, std::int64_t count, element_type type, int from, int tag);
    /// Starts the same receive with an untyped buffer. @param count elements that the buffer holds
    request recv_async(void* data, std::int64_t count, element_type type, int from, int tag, received* result);

    // Any number of calls may be in flight, and they complete in any order. Calls make progress while the
    // communicator's thread is in Terrace: in any call, test() or wait(); with options::progress_thread at any time.

    // ---- windows and parts

    /// Allocates a window: zeroed memory of `count` elements, for buffers that calls need not copy inside a machine
    /// node. Collective; all ranks pass the same count and type. Completes the calls in flight first. Calls accept any
    /// other memory too, and each rank may choose. If memory cannot be shared, the window is plain memory, and
    /// options::log receives a warning.
    /// @throws usage_error if ranks differ; memory_error; and as the collectives
    template <data_element T>
    window<T> allocate(std::size_t count) {
        return {allocate_bytes(count, sizeof(T)), count};
    }

    /// Makes a communicator of the ranks that pass the same color, numbered by ascending key and, if keys are equal, in
    /// their present order. Returns nothing if the color is negative. Collective over all ranks.
    ///
    /// One rank of the new communicator makes its plan, for the part of the machine that its ranks run on. The two
    /// communicators are independent: either may be destroyed first, and both may be used alternately, in the same
    /// order on all ranks. Collectives in flight are completed first.
    /// @throws plan_error if no plan can be made; and as the collectives
    std::optional<communicator> split(int color, int key = 0);

    /// Makes a communicator of the ranks that run on the same machine node as this one, numbered as in split(). The
    /// transport finds the nodes, even if options::place is `anywhere`. Collective over all ranks. @throws as split()
    communicator split_by_node(int key = 0);
    /// Makes a communicator of the ranks that have not failed, in their present order, after a rank_failed_error. Its
    /// plan is made for the part of the machine that remains. Collective over these ranks: waits for all of them. If
    /// another one fails meanwhile, the others begin again without it. docs/reference/failures.md
    /// @throws partitioned_error if fewer than half of the ranks are left, or half without rank 0 of the plan
    /// @throws usage_error if no rank has failed, or the transport does not survive a failure (MPICH); timeout_error if
    /// a rank that has not failed does not call this; plan_error, transport_error
    communicator shrink();

    /// Describes the stages of an allreduce of `bytes`, innermost first, for example "node:4 scatter direct > core:2
    /// scatter ring". @throws plan_error if the plan has no rules for allreduce
    std::string shape(std::int64_t bytes) const;
    /// Returns the time that the plan's cost model predicts for an allreduce of `bytes` [s]:
    /// docs/reference/cost-model.md. 0 if the plan has no predictions. @throws plan_error if the plan has no rules for
    /// allreduce
    double predicted(std::int64_t bytes) const;
    /// Returns the same for an allgather whose blocks have `bytes` together.
    double predicted_allgather(std::int64_t bytes) const;
    /// Returns counts and times of the calls of this rank so far, and how long it waited for each other rank. Local.
    terrace::statistics statistics() const;
    /// Keeps the programs of this many shapes of calls from now on; at first 32. A shape is a collective with its
    /// count, type, operation and root. The first call of a shape makes a program, which costs time and memory. Later
    /// calls reuse it, while options::memory has room. For callers that alternate between more shapes. Local; a smaller
    /// number than before has no effect.
    void keep_programs(int shapes);
    /// Replaces options::timeout from now on, also for calls in flight and for parts made later, but not for calls of
    /// device buffers. Local. @param timeout [s]; 0: no limit   @throws usage_error if it is negative
    void set_timeout(std::chrono::duration<double> timeout);
    /// Ends all calls of this rank, also on a device, without waiting for other ranks. The communicator is then broken:
    /// calls in flight and later ones throw usage_error. Other ranks are not notified. Local, from any thread.
    void abort() noexcept;

    /// Returns true if options::trace_file is set.
    bool is_traced() const noexcept;
    /// Adds a slice to the trace, for an activity of the program. Does nothing unless is_traced(). @param track the row
    /// of this rank with the slice; slices of a row must not overlap   @param name the label of the slice
    void trace(std::string_view track, std::string_view name, std::chrono::steady_clock::time_point begin,
               std::chrono::steady_clock::time_point end);

private:
    friend struct detail::communicator_access;
    explicit communicator(std::unique_ptr<detail::communicator_core> core) noexcept;

    template <class R>
    static constexpr element_type type_of() noexcept {
        return data_element_type_of<buffer_element_t<R>>;
    }
    template <class R>
    static auto at(R& buffer) noexcept {
        return std::ranges::data(buffer);
    }
    template <class R>
    static std::int64_t count_of(R& buffer) noexcept {
        return static_cast<std::int64_t>(std::ranges::size(buffer));
    }

    // Starts a call and waits for it.
    template <class Start>
    void run(const char* call, const Start& start) {
        expect_no_group(call);
        start().wait();
    }
    void expect_no_group(const char* call) const;

    // Throw a usage_error with the counts if these do not match.
    static void expect_equal(const char* call, std::int64_t send, std::int64_t recv);
    struct block_names {
        const char *all, *own;  // names of the buffer of all blocks, and of the buffer of the own block
    };
    void expect_blocks(const char* call, std::int64_t all, std::int64_t own, const block_names& names) const;
    void expect_blocks(const char* call, std::span<const std::int64_t> counts, std::int64_t all,
                       std::int64_t own) const;
    static void expect_sum(const char* call, std::span<const std::int64_t> counts, std::int64_t all);
    // Returns the elements of one block; each buffer holds one block for each rank.
    std::int64_t expect_block_each(const char* call, std::int64_t send, std::int64_t recv) const;

    std::shared_ptr<std::byte> allocate_bytes(std::size_t count, std::size_t element);

    std::unique_ptr<detail::communicator_core> core_;
};

}  // namespace terrace
