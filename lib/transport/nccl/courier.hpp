#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "executor/transport.hpp"

namespace terrace {

/// Takes what devices send each other over the host's network. Streams and a thread of its own talk by two numbers for
/// each queue, in memory that both reach: the stream raises the first when a parcel may leave, the thread the second
/// when it has been sent and what comes back is there. The thread puts nothing into any stream.
class courier {
public:
    /// One queue's numbers, on a cache line that the device can write.
    struct alignas(64) counters {
        std::uint32_t ready = 0;
        alignas(64) std::uint32_t delivered = 0;
    };

    /// @param net of its own  @param at one for each queue, 0; outlives this
    /// @param direct whether messages lie in memory of devices, on all ranks
    courier(std::unique_ptr<transport> net, std::vector<counters*> at, bool direct, std::vector<int> callers_rank);
    ~courier();

    // One thread puts parcels in, between open() and close().
    /// @param stage in words, that lives until the parcel is delivered
    void open(int queue, std::string_view stage);
    void send(int peer, const std::byte* from, std::size_t bytes);
    void recv(int peer, std::byte* to, std::size_t bytes);
    /// @returns the parcel's number: what `ready` must reach before it leaves, and `delivered` after
    std::uint32_t close();

    /// The network's first failure, and the stage and ranks that it hit.
    std::optional<transport_fault> fault() const;
    /// "stage node:4 scatter ring over mpi waits for rank 2, 3": what the oldest parcel waits for; empty if for nobody.
    std::string awaited() const;
    /// No parcel leaves any more. Whatever is missing soon counts as delivered, so that no stream waits: once peers
    /// have what is on its way to them, or a second later. To be called before streams go on past what has failed, lest
    /// they hand over what they do not have; no parcel may be put in after it.
    void give_up() noexcept;
    /// After the thread's end: whether the network may go on using the memory that parcels were in.
    bool stop() noexcept;

private:
    using clock = std::chrono::steady_clock;

    struct message {
        int peer;
        std::byte* at;
        std::size_t bytes;
        int left;  // pieces that are not through
    };
    // What a parcel has each way, and how far it is.
    struct direction {
        std::vector<message> all;
        std::size_t next = 0;  // message that is started next
        int piece = 0;         // and of it
        std::size_t left = 0;  // messages that are not through
    };
    struct parcel {
        std::string_view stage;
        int queue = 0;
        std::uint32_t number = 0;
        bool begun = false;
        direction in, out;
    };
    struct line {
        counters* at;
        std::list<parcel> parcels;  // first come, first served
        std::vector<int> in, out;   // free slots for messages
    };

    void run(const std::stop_token& stop);
    bool take_over(const std::stop_token& stop);
    bool look();
    bool wind_up();
    void let_go() noexcept;
    bool begin(line& l);
    void start(parcel& p, direction& d, std::vector<int>& slots);
    bool move_along();
    void note(int slot);
    void deliver(line& l);
    int pieces(const message& m) const noexcept;
    std::string waits_of(const parcel& p) const;

    const std::unique_ptr<transport> net_;
    const std::size_t piece_;
    const std::vector<int> callers_rank_;

    std::mutex guard_;  // of the next three
    std::condition_variable_any there_;
    std::list<parcel> fresh_, spare_;
    std::optional<clock::time_point> given_up_;  // when; written under both guards

    mutable std::mutex working_;  // of the next four
    std::vector<line> lines_;
    std::vector<std::size_t> message_of_;  // by slot
    std::list<parcel> delivered_;
    std::optional<transport_fault> fault_;

    // Of the own thread.
    std::size_t under_way_ = 0;  // parcels
    bool over_ = false;          // given up, and let go
    bool still_used_ = false;    // by the network, for good

    // Of the thread that puts parcels in.
    std::list<parcel> open_;              // one
    std::vector<std::uint32_t> numbers_;  // by queue: the last
    std::jthread thread_;                 // last
};

}  // namespace terrace
