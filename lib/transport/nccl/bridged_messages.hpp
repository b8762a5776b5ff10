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

/// Carries messages between devices over the host's network. A stream and the bridge's own thread synchronise by two
/// numbers for each queue, in memory that both reach. The stream raises `ready` when a batch may leave. The thread
/// raises `delivered` when the batch has been sent and its answers have arrived. The thread puts nothing into any
/// stream.
class mpi_bridge {
public:
    /// The numbers of one queue, in memory that the device can write.
    struct alignas(64) counters {
        std::uint32_t ready = 0;
        alignas(64) std::uint32_t delivered = 0;
    };

    /// @param by ranks that nobody else has connected  @param at one for each queue, 0; outlives this
    /// @param direct whether messages lie in memory of devices, on all ranks   @param at_start what its thread does
    /// first
    mpi_bridge(connection by, const std::vector<counters*>& at, bool direct, std::vector<int> callers_rank,
               std::function<void()> at_start);
    ~mpi_bridge() { stop(); }

    // One thread adds batches, each between open() and close().
    /// @param stage name of the stage for messages; must live until the batch is delivered
    void open(int queue, std::string_view stage);
    void send(int peer, const std::byte* from, std::size_t bytes) {
        open_.front().out.all.push_back({peer, const_cast<std::byte*>(from), bytes, pieces(bytes)});
    }
    void recv(int peer, std::byte* to, std::size_t bytes) {
        open_.front().in.all.push_back({peer, to, bytes, pieces(bytes)});
    }
    /// @returns the batch's number: `ready` reaches it before the batch leaves, and `delivered` after
    std::uint32_t close();

    /// The network's first failure, with the stage and the ranks that were waiting.
    std::optional<transport_fault> fault() const {
        const std::lock_guard lock(working_);
        return fault_;
    }
    /// Returns the stage and the ranks that the oldest batch waits for, "stage node:4 scatter ring over mpi waits for
    /// rank 2, 3"; empty if no batch waits.
    std::string awaited() const {
        const std::lock_guard lock(working_);
        return what_waits();
    }
    /// Lets no batch leave any more, and counts all batches as delivered, so that no stream waits: once peers have the
    /// messages that are in flight, or after a second. Must be called before streams go on past the failure, since they
    /// would send data that they do not have. No batch may be added after it.
    void give_up() noexcept;
    /// Ends the thread. Returns true if the network may go on using the memory of messages.
    bool stop() noexcept;

private:
    using clock = std::chrono::steady_clock;

    struct message {
        int peer;
        std::byte* at;
        std::size_t bytes;
        int left;  // pieces in flight or to be started
    };
    // The messages of a batch one way, and how far they are.
    struct direction {
        std::vector<message> all;
        std::size_t next = 0;  // message that is started next
        int piece = 0;         // and of it
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
        std::list<batch> batches;  // first come, first served
        std::vector<int> in, out;  // free slots for messages
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

    std::mutex guard_;  // of the next three
    std::condition_variable_any there_;
    std::list<batch> fresh_, spare_;
    std::optional<clock::time_point> given_up_;  // when; written under both guards

    mutable std::mutex working_;  // of the next four
    std::vector<queue_state> queues_;
    std::vector<std::size_t> message_of_;  // by slot
    std::list<batch> delivered_;
    std::optional<transport_fault> fault_;

    // Used by the bridge's thread alone.
    std::size_t in_flight_ = 0;  // pieces
    std::size_t under_way_ = 0;  // batches
    bool over_ = false;          // given up, and let go
    bool still_used_ = false;    // by the network, for good

    // Used by the thread that adds batches alone.
    std::list<batch> open_;               // one
    std::vector<std::uint32_t> numbers_;  // by queue: the last
    std::jthread thread_;                 // last
};

/// Messages between devices over the host's network, as MPI. A message is copied into memory of the host, which
/// mpi_bridge sends when the queue says so, and the queue waits until the answers have arrived. Where the network
/// accepts addresses of devices on all ranks, nothing is copied.
class bridged_messages final : public stream_messages {
public:
    /// Collective. @param host may go afterwards   @throws as on_all_ranks
    bridged_messages(connection& host, device_queues& on, int queues, const std::vector<int>& callers_rank);
    ~bridged_messages();

    /// True where the network accepts addresses of devices on all ranks.
    bool direct() const noexcept { return direct_; }

    void open(int queue, const call_position& where, std::string_view stage, std::byte* host) noexcept override;
    void send(int peer, const void* from, std::size_t bytes) noexcept override;
    void recv(int peer, void* to, std::size_t bytes) noexcept override;
    void close() noexcept override;

    // As mpi_bridge.
    std::optional<transport_fault> fault() const { return bridge_->fault(); }
    std::string awaited() const { return bridge_->awaited(); }
    void give_up() noexcept { bridge_->give_up(); }

private:
    // A message that is copied from the host to its place once it has arrived.
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
    int queue_ = 0;              // between open() and close()
    std::byte* host_ = nullptr;  // free memory of the host
    std::vector<arrival> arriving_;
};

}  // namespace terrace::detail
