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

/// The time since which a peer's kernel has acknowledged none of a socket's bytes, derived from counts that may be read
/// at long intervals. Bytes may always be in flight, such as replies that another thread sends. Only acknowledgements
/// since then count.
class acknowledgement {
public:
    using time_point = std::chrono::steady_clock::time_point;

    /// Records that a byte is sent.   @param acknowledged total of acknowledged bytes on this connection
    void sent(time_point now, std::uint64_t acknowledged) noexcept {
        if (missing_) return;
        missing_ = now;
        seen_ = acknowledged;
    }

    /// Records counts.   @param outstanding bytes sent and not acknowledged   @param acknowledged as in sent()
    void look(time_point now, int outstanding, std::uint64_t acknowledged) noexcept {
        const bool more = std::exchange(seen_, acknowledged) != acknowledged;
        if (!missing_ || (outstanding > 0 && !more)) return;
        last_ = std::exchange(missing_, outstanding > 0 ? std::optional(now) : std::nullopt);
    }

    /// Returns the time since which bytes are outstanding without any acknowledgement; nothing if none are.
    std::optional<time_point> missing_since() const noexcept { return missing_; }
    /// Returns the latest time after which an acknowledgement is known; nothing if there was none.
    std::optional<time_point> last() const noexcept { return last_; }

private:
    std::optional<time_point> missing_{}, last_{};
    std::uint64_t seen_ = 0;
};

/// TCP connections from this rank to some ranks of other nodes, without data. The kernels at both ends report if the
/// process at the other end has ended, or if its node cannot be reached. A thread of each rank replies to ranks that
/// wait, also while its process computes, but not while the process is stopped. It sleeps while no heartbeat arrives.
///
/// Rank j of a node has a lifeline to rank j of the nodes 1, 2, 4 ... further on, at most halfway around. If any nodes
/// are cut off together, each of their ranks therefore has a lifeline to a rank outside.
class lifelines {
public:
    using clock = std::chrono::steady_clock;

    /// Connects; leaves out connections that cannot be made. Collective. The rank's listener is closed on return.
    /// @param nodes ranks of the team, by node   @param silence longest time without acknowledgement or reply [s]
    /// @param on interface at which this rank listens; without an address the rank does not listen
    /// @throws transport_error if no port of a rank's range is free
    lifelines(team& ranks, const std::vector<std::vector<int>>& nodes, std::chrono::duration<double> silence,
              const network_interface& on, port_range ports);
    /// Sends a shutdown message on each lifeline.
    ~lifelines();

    /// liveness::look
    bool look(clock::time_point now, std::vector<sighting>& found) noexcept;
    /// Returns the ranks at the other ends, as the bootstrap numbers them.
    std::vector<int> ends() const {
        std::vector<int> ranks;
        for (const line& l : lines_) ranks.push_back(l.rank);
        return ranks;
    }
    /// Returns the ranks to which this rank could not connect, as the bootstrap numbers them.
    const std::vector<int>& missing() const noexcept { return missing_; }
    /// Returns the number of lifelines of a rank, as reported by the ranks that have connected: the same on all ranks.
    int of(int rank) const noexcept { return counts_[static_cast<std::size_t>(rank)]; }

private:
    struct line {
        int rank = 0;  // rank of the bootstrap
        descriptor fd;
        bool sure = false;     // the other end has proved to be the expected rank
        bool left = false;     // the other end has sent its shutdown message
        bool answers = false;  // the other end has a thread that replies
        acknowledgement heartbeats{};
        std::optional<clock::time_point> asked{};  // time of the first heartbeat since the last reply
        bool failed = false;
        clock::time_point failed_at{};
        evidence by = evidence::unacknowledged;  // evidence of its failure
    };
    using job_key = std::array<std::uint64_t, 2>;
    struct greeting {
        job_key key{};
        std::int32_t from = 0, to = 0;  // ranks of the bootstrap
    };
    struct place;

    // Bytes on a lifeline: connection accepted; a thread replies; heartbeat and reply while a rank waits; shutdown.
    static constexpr char accepted = 'w', answers = 'a', heartbeat = 'p', reply = 'r', shutdown = 'f';

    std::uint32_t call(const team& ranks, const std::vector<place>& places, const std::vector<int>& targets);
    void answer(const descriptor& listener, const job_key& key, int me, int expected);
    void add(int rank, descriptor fd, bool sure);
    void begin_to_answer();
    void answer_heartbeats() noexcept;
    // Makes poll(2) ignore failed lines, by negative descriptors.
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
    std::vector<int> counts_;  // lines by rank of the bootstrap; each line counts at both of its ends
    std::mutex lines_lock_;    // guards all below, once there is a thread
    std::vector<line> lines_;
    std::vector<pollfd> polled_;  // by line
    clock::time_point next_heartbeat_{};
    descriptor ends_answers_;
    std::future<void> answerer_;
};

}  // namespace terrace::detail
