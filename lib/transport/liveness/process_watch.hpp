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
    std::uint64_t started = 0;  ///< clock ticks since boot: tells it from a later process with this number
};

/// What /proc says of a process.
struct process_state {
    char letter = '?';          ///< 'T': stopped, 'Z': ended and not yet waited for
    bool exits = false;         ///< its first thread has ended, or is about to
    std::uint64_t ran = 0;      ///< processor time [clock ticks]
    std::uint64_t started = 0;  ///< process_id::started
};

/// Returns nothing where there is no such process, or /proc does not show it.
std::optional<process_state> state_of(pid_t pid) noexcept;

/// Returns true if all threads of a process have ended or are about to. The kernel may take long over the rest, such as
/// a mount namespace that nobody else uses; until then a pidfd says nothing, and sockets stay open.
bool is_ending(pid_t pid) noexcept;

/// Watches the processes of one node: a pidfd each, and /proc.
class process_watch {
public:
    using clock = std::chrono::steady_clock;
    /// Which a process sets in shared memory when it needs the others no more: it may end then.
    using shutdown_flag = std::atomic<std::uint32_t>;

    /// @param stopped_for how long a process must be stopped to be found
    /// @param flags by peer, and valid as long as this; null, or none at all: as long must a process have ended
    process_watch(std::vector<process_id> peers, std::chrono::duration<double> stopped_for,
                  std::vector<const shutdown_flag*> flags = {});

    /// liveness::look
    bool look(clock::time_point now, std::vector<sighting>& found) noexcept;

private:
    struct peer {
        process_id id;
        descriptor fd;  // none where the kernel grants none
        const shutdown_flag* left = nullptr;
        bool visible = false;                            // in /proc
        std::optional<clock::time_point> ended_at{};     // when that was seen
        std::optional<clock::time_point> stopped_since;  // seen so whenever looked at, without having run
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
