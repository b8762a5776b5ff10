#include "transport/liveness/process_watch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace terrace::detail {

std::optional<process_state> state_of(pid_t pid) noexcept {
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "/proc/%d/stat", static_cast<int>(pid));
    const descriptor file(::open(name.data(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> text{};
    if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return {};
    const char* after_name = std::strrchr(text.data(), ')');  // a name may contain any character
    if (after_name == nullptr) return {};
    process_state s;
    unsigned flags = 0;
    unsigned long user = 0, system = 0;  // NOLINT(google-runtime-int): as sscanf has them
    unsigned long long started = 0;      // NOLINT(google-runtime-int)
    // Fields 3, 9, 14, 15 and 22 of proc(5).
    const int got =
        std::sscanf(after_name + 1, " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu",
                    &s.letter, &flags, &user, &system, &started);
    constexpr unsigned exiting = 4;  // PF_EXITING of the kernel
    if (got != 5) return {};
    s.exits = (flags & exiting) != 0;
    s.ran = user + system;
    s.started = started;
    return s;
}

bool is_ending(pid_t pid) noexcept {
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "/proc/%d/task", static_cast<int>(pid));
    const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir(name.data()), ::closedir);
    while (const dirent* thread = threads ? ::readdir(threads.get()) : nullptr) {
        if (thread->d_name[0] == '.') continue;
        const std::optional<process_state> s = state_of(static_cast<pid_t>(std::strtol(thread->d_name, nullptr, 10)));
        if (s && !s->exits) return false;
    }
    return threads != nullptr;
}

process_watch::process_watch(std::vector<process_id> peers, std::chrono::duration<double> stopped_for,
                             std::vector<const shutdown_flag*> flags)
    : stopped_for_(stopped_for) {
    flags.resize(peers.size());
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const process_id& id = peers[i];
        peer p{.id = id, .fd = {}, .left = flags[i], .stopped_since = {}};
#ifdef SYS_pidfd_open
        p.fd = descriptor(static_cast<int>(::syscall(SYS_pidfd_open, id.pid, 0)));  // closed on exec
#endif
        const std::optional<process_state> now = state_of(id.pid);
        p.visible = now && now->started == id.started;
        polled_.push_back({.fd = p.fd.get(), .events = POLLIN, .revents = 0});
        peers_.push_back(std::move(p));
    }
}

bool process_watch::look(clock::time_point now, std::vector<sighting>& found) noexcept {
    poll_all(now);
    if (now >= next_reading_) {
        constexpr int readings = 16;  // number of readings within stopped_for_
        next_reading_ = now + std::chrono::duration_cast<clock::duration>(stopped_for_ / readings);
        for (peer& p : peers_) read_state(p, now);
    }
    bool doubtful = false;
    for (const peer& p : peers_) {
        const std::optional<evidence> by = shown_by(p, now);
        if (by) found.push_back({p.id.rank, *by});
        doubtful = doubtful || (!by && p.stopped_since && !p.ended_at);
    }
    return doubtful;
}

// A process that has set its shutdown flag may end.
std::optional<evidence> process_watch::shown_by(const peer& p, clock::time_point now) const noexcept {
    const auto for_long = [&](const auto& since) { return since && now - *since >= stopped_for_; };
    if (p.ended_at && p.left != nullptr && p.left->load(std::memory_order_acquire) == 0) return evidence::process_ended;
    if (for_long(p.ended_at)) return p.left != nullptr ? evidence::process_left : evidence::process_ended;
    if (p.ended_at && p.left != nullptr) return evidence::has_left;
    if (!p.ended_at && for_long(p.stopped_since)) return evidence::stopped_by_signal;
    return {};
}

// A pidfd is readable once the process has ended.
void process_watch::poll_all(clock::time_point now) noexcept {
    if (::poll(polled_.data(), polled_.size(), 0) <= 0) return;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        if ((polled_[i].revents & POLLIN) == 0) continue;
        if (!peers_[i].ended_at) peers_[i].ended_at = now;
        polled_[i].fd = -1;  // poll(2) ignores negative descriptors
    }
}

void process_watch::read_state(peer& p, clock::time_point now) noexcept {
    if (!p.visible || p.ended_at) return;
    const std::optional<process_state> s = state_of(p.id.pid);
    const bool is_there = s && s->started == p.id.started && s->letter != 'Z' && s->letter != 'X';
    const bool ends = s && s->started == p.id.started && s->exits && is_ending(p.id.pid);
    if (ends || (!is_there && !p.fd)) p.ended_at = now;
    const bool stopped = is_there && s->letter == 'T';
    if (!stopped || (p.stopped_since && s->ran != p.ran)) p.stopped_since.reset();
    if (stopped && !p.stopped_since) p.stopped_since = now;
    if (s) p.ran = s->ran;
}

}  // namespace terrace::detail
