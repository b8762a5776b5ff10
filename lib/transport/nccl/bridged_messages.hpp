#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "transport/nccl/device_queues.hpp"
#include "transport/network.hpp"
#include "transport/stream_transport.hpp"

namespace terrace::detail {

/// Sends messages between devices over the host's network. For each queue, a stream and the bridge's thread synchronise
/// by two numbers, in memory that both can access. The stream raises `ready` when a batch may be sent. The thread
/// raises `delivered` when all messages of the batch have been sent and received. The thread enqueues nothing in
/// streams.
class mpi_bridge {
public:
    /// The numbers of one queue, in memory that the device can write.
    struct alignas(64) counters {
        std::uint32_t ready = 0;
        alignas(64) std::uint32_t delivered = 0;
    };

    /// @param by a team without another connection   @param at one for each queue, set to 0; must outlive this
    /// @param direct true if messages lie in device memory, on all ranks   @param at_start called first by the thread
    mpi_bridge(connection by, const std::vector<counters*>& at, bool direct, std::vector<int> callers_rank,
               std::function<void()> at_start);
    ~mpi_bridge() { stop(); }

    // One thread adds batches, each between open() and close().
    /// @param stage name of the stage in error messages; must live until the batch is delivered
    void open(int queue, std::string_view stage);
    void send(int peer, const std::byte* from, std::size_t bytes) {
        open_.front().out.all.push_back({peer, const_cast<std::byte*>(from), bytes, pieces(bytes)});
    }
    void recv(int peer, std::byte* to, std::size_t bytes) {
        open_.front().in.all.push_back({peer, to, bytes, pieces(bytes)});
    }
    /// @returns the number of the batch, which `ready` reaches before the batch is sent, and `delivered` afterwards
    std::uint32_t close();

    /// Returns the network's first failure, with the stage and the ranks that a batch was waiting for.
    std::optional<transport_fault> fault() const {
        const std::lock_guard lock(working_);
        return fault_;
    }
    /// Returns the stage and the ranks that a batch waits for, "stage node:4 scatter ring over mpi waits for rank 2,
    /// 3"; empty if no batch waits.
    std::string awaited() const {
        const std::lock_guard lock(working_);
        return what_waits();
    }
    /// Sends no further batch. Marks all batches as delivered, so no stream waits, once peers have the messages in
    /// flight, or after a second. Must be called before streams continue after the failure, since they would send data
    /// that they do not have. No batch may be added afterwards.
    void give_up() noexcept;
    /// Ends the thread. Returns true if the network may still use the memory of messages.
    bool stop() noexcept;

private:
    using clock = std::chrono::steady_clock;

    struct message {
        int peer;
        std::byte* at;
        std::size_t bytes;
        int left;  // pieces in flight or to be started
    };
    // The messages of a batch in one direction, and their progress.
    struct direction {
        std::vector<message> all;
        std::size_t next = 0;  // next message to start
        int piece = 0;         // its next piece to start
    };
    struct batch {
        std::string_view stage;
        int queue = 0;
        std::uint32_t number = 0;
        bool begun = false;
        std::size_t left = 0;  // messages in flight or to be started
        direction in, out;
    };
    struct queue_state {
        counters* at;
        std::list<batch> batches;  // in the order of arrival
        std::vector<int> in, out;  // free slots of receives and of sends
    };

    bool take_over(const std::stop_token& stop);
    bool look();
    bool wind_up();
    void let_go() noexcept;
    bool begin(queue_state& l);
    void start(batch& p, direction& d, std::vector<int>& slots);
    bool move_along();
    int pieces(std::size_t bytes) const noexcept;
    std::string what_waits() const;

    const std::shared_ptr<network> by_;
    const std::unique_ptr<messages> net_;
    const std::size_t piece_;
    const std::vector<int> callers_rank_;

    std::mutex guard_;  // guards fresh_, spare_ and given_up_
    std::condition_variable_any there_;
    std::list<batch> fresh_, spare_;
    std::optional<clock::time_point> given_up_;  // time of give_up(); written under both locks

    mutable std::mutex working_;  // guards the next four
    std::vector<queue_state> queues_;
    std::vector<std::size_t> message_of_;  // index of the message, by slot
    std::list<batch> delivered_;
    std::optional<transport_fault> fault_;

    // Used only by the bridge's thread.
    std::size_t in_flight_ = 0;  // pieces
    std::size_t under_way_ = 0;  // batches
    bool over_ = false;          // true after let_go()
    bool still_used_ = false;    // the network may use the memory of messages for good

    // Used only by the thread that adds batches.
    std::list<batch> open_;               // the batch between open() and close()
    std::vector<std::uint32_t> numbers_;  // number of the last batch, by queue
    std::jthread thread_;                 // must be the last member
};

/// Messages between devices over the host's network, such as MPI. A message is copied to host memory, and mpi_bridge
/// sends it when the queue has reached it. The queue then waits until the messages to this rank have arrived. If the
/// network accepts device addresses on all ranks, nothing is copied.
class bridged_messages final : public stream_messages {
public:
    /// Collective. @param host may end first   @throws as on_all_ranks
    bridged_messages(connection& host, device_queues& on, int queues, const std::vector<int>& callers_rank);
    ~bridged_messages();

    /// Returns true if the network accepts device addresses on all ranks.
    bool direct() const noexcept { return direct_; }

    void open(int queue, const call_position& where, std::string_view stage, std::byte* host) noexcept override;
    void send(int peer, const void* from, std::size_t bytes) noexcept override;
    void recv(int peer, void* to, std::size_t bytes) noexcept override;
    void close() noexcept override;

    // As in mpi_bridge.
    std::optional<transport_fault> fault() const { return bridge_->fault(); }
    std::string awaited() const { return bridge_->awaited(); }
    void give_up() noexcept { bridge_->give_up(); }

private:
    // A received message, which is copied from host memory to its place.
    struct arrival {
        std::byte *to, *host;
        std::size_t bytes;
    };

    std::optional<transport_fault> make_counters(int queues);
    std::byte* host_place(std::size_t bytes) noexcept;
    void release_counters() noexcept {
        if (counters_ != nullptr && !on_.keeps_memory()) on_.gpu().release_pinned(counters_);
    }

    device_queues& on_;
    bool direct_ = false;
    mpi_bridge::counters* counters_ = nullptr;  // by queue
    std::unique_ptr<mpi_bridge> bridge_;
    int queue_ = 0;              // queue between open() and close()
    std::byte* host_ = nullptr;  // free host memory
    std::vector<arrival> arriving_;
};

}  // namespace terrace::detail
