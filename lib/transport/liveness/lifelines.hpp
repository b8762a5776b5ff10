#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "transport/interfaces.hpp"
#include "transport/liveness.hpp"
#include "transport/ports.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// Since when a peer's kernel has acknowledged nothing of what a socket has sent, told from counts that may be read
/// long after each other. Bytes may always be on the way, such as replies that another thread sends: what counts is
/// whether any has been acknowledged since.
class acknowledgement {
public:
    using time_point = std::chrono::steady_clock::time_point;

    /// A byte is sent.   @param acknowledged bytes that have been on this connection
    void sent(time_point now, std::uint64_t acknowledged) noexcept {
        if (missing_) return;
        missing_ = now;
        seen_ = acknowledged;
    }

    /// @param outstanding bytes that are sent and not acknowledged   @param acknowledged as in sent()
    void look(time_point now, int outstanding, std::uint64_t acknowledged) noexcept {
        const bool more = std::exchange(seen_, acknowledged) != acknowledged;
        if (!missing_ || (outstanding > 0 && !more)) return;
        last_ = std::exchange(missing_, outstanding > 0 ? std::optional(now) : std::nullopt);
    }

    /// Since when bytes are outstanding of which none is known to be acknowledged; none where all are.
    std::optional<time_point> missing_since() const noexcept { return missing_; }
    /// After which time something was acknowledged last.
    std::optional<time_point> last() const noexcept { return last_; }

private:
    std::optional<time_point> missing_{}, last_{};
    std::uint64_t seen_ = 0;
};

/// TCP connections from this rank to some ranks of other nodes, which carry no data: the kernels at their ends tell
/// when the process there has ended, and when its node cannot be reached. A thread of each rank, which sleeps as long
/// as nobody asks, answers those who wait: it does so while its process computes, and not while that is stopped.
///
/// Rank j of a node has one to rank j of the nodes 1, 2, 4 ... further on, at most halfway around, so that each rank of
/// any nodes that are cut off together has one to a rank that is not.
class lifelines {
public:
    using clock = std::chrono::steady_clock;

    /// Connects. Collective. Where no connection can be made, there is none. Nobody listens any more when it returns.
    /// @param nodes ranks of the team, by node   @param silence how long a node may leave what is sent to it without an
    /// answer [s]   @param on where this rank listens; without an address it does not   @throws transport_error, where
    /// no port of a rank's range is free
    lifelines(team& ranks, const std::vector<std::vector<int>>& nodes, std::chrono::duration<double> silence,
              const network_interface& on, port_range ports);
    /// Tells the other ends that this process goes on without them.
    ~lifelines();

    /// liveness::look
    bool look(clock::time_point now, std::vector<sighting>& found) noexcept;
    /// Returns the ranks at the other ends, as the bootstrap numbers them.
    std::vector<int> ends() const {
        std::vector<int> ranks;
        for (const line& l : lines_) ranks.push_back(l.rank);
        return ranks;
    }
    /// Returns the ranks that have not answered this one's calls, as the bootstrap numbers them.
    const std::vector<int>& missing() const noexcept { return missing_; }
    /// Returns how many a rank has by what those say who have called: the same on all ranks.
    int of(int rank) const noexcept { return counts_[static_cast<std::size_t>(rank)]; }

private:
    struct line {
        int rank = 0;  // of the bootstrap
        descriptor fd;
        bool sure = false;     // the other end is the rank that it should be
        bool left = false;     // it goes on without this connection
        bool answers = false;  // there is a thread that does
        acknowledgement heartbeats{};
        std::optional<clock::time_point> asked{};  // the first heartbeat since the last reply
        bool failed = false;
        clock::time_point failed_at{};
        evidence by = evidence::unacknowledged;  // of its failure
    };
    using job_key = std::array<std::uint64_t, 2>;
    struct greeting {
        job_key key{};
        std::int32_t from = 0, to = 0;  // ranks of the bootstrap
    };
    struct place;

    // The bytes that travel: from who has been called, and who answers; while somebody waits; and at the end.
    static constexpr char accepted = 'w', answers = 'a', heartbeat = 'p', reply = 'r', shutdown = 'f';

    std::uint32_t call(const team& ranks, const std::vector<place>& places, const std::vector<int>& targets);
    void answer(const descriptor& listener, const job_key& key, int me, int expected);
    void add(int rank, descriptor fd, bool sure);
    void begin_to_answer();
    void answer_pulses() noexcept;
    // poll(2) does so where a descriptor is negative.
    void pass_over_failed() noexcept {
        for (std::size_t i = 0; i < lines_.size(); ++i)
            if (lines_[i].failed) polled_[i].fd = -1;
    }
    std::optional<evidence> shown_by(const line& l, clock::time_point now) const noexcept;
    bool is_in_doubt(const line& l, clock::time_point now) const noexcept;
    static bool send_byte(const line& l, char byte) noexcept;
    static void read(line& l) noexcept;
    static void receive(line& l, char byte) noexcept;
    void send_heartbeat(line& l, clock::time_point now) const noexcept;
    void look_for_answer(line& l, clock::time_point now) const noexcept;
    static void fail(line& l, int code) noexcept;

    const std::chrono::duration<double> silence_;
    std::vector<int> missing_;
    std::vector<int> counts_;  // lines of all ranks, at both of their ends, by rank of the bootstrap
    std::mutex lines_lock_;    // of all below, once there is a thread
    std::vector<line> lines_;
    std::vector<pollfd> polled_;  // by line
    clock::time_point next_heartbeat_{};
    descriptor ends_answers_;
    std::future<void> answerer_;
};

}  // namespace terrace::detail
