#pragma once

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/descriptor.hpp"
#include "transport/liveness.hpp"

namespace terrace::detail {

/// A process of this machine, in this PID namespace.
struct process_id {
    int rank = 0;
    pid_t pid = 0;
    std::uint64_t started = 0;  ///< start [clock ticks since boot]; a later process with this number has another
};

/// State of a process, from /proc.
struct process_state {
    char letter = '?';          ///< 'T': stopped, 'Z': ended and not yet waited for
    bool exits = false;         ///< its first thread has ended, or is about to
    std::uint64_t ran = 0;      ///< processor time [clock ticks]
    std::uint64_t started = 0;  ///< process_id::started
};

/// Returns the state of a process; nothing if there is no such process, or /proc does not show the process.
std::optional<process_state> state_of(pid_t pid) noexcept;

/// Returns true if all threads of a process have ended or are about to. The kernel may need long for the rest, such as
/// a mount namespace without other users. Until then the pidfd is not readable, and sockets stay open.
bool is_ending(pid_t pid) noexcept;

/// Watches the processes of one node, by a pidfd for each and by /proc.
class process_watch {
public:
    using clock = std::chrono::steady_clock;
    /// Flag in shared memory. A process that no longer needs the others sets its flag, and may end then.
    using shutdown_flag = std::atomic<std::uint32_t>;

    /// @param stopped_for time for which a process must be stopped before it is reported
    /// @param flags by peer, valid as long as this; a peer without a flag is reported if it ended `stopped_for` ago
    process_watch(std::vector<process_id> peers, std::chrono::duration<double> stopped_for,
                  std::vector<const shutdown_flag*> flags = {});

    /// liveness::look
    bool look(clock::time_point now, std::vector<sighting>& found) noexcept;

private:
    struct peer {
        process_id id;
        descriptor fd;  // none if the kernel grants none
        const shutdown_flag* left = nullptr;
        bool visible = false;                            // in /proc
        std::optional<clock::time_point> ended_at{};     // when the end was seen
        std::optional<clock::time_point> stopped_since;  // stopped at each reading since then, and has not run
        std::uint64_t ran = 0;
    };

    void poll_all(clock::time_point now) noexcept;
    std::optional<evidence> shown_by(const peer& p, clock::time_point now) const noexcept;
    void read_state(peer& p, clock::time_point now) noexcept;

    const std::chrono::duration<double> stopped_for_;
    std::vector<peer> peers_;
    std::vector<pollfd> polled_;  // by peer
    clock::time_point next_reading_{};
};

}  // namespace terrace::detail
