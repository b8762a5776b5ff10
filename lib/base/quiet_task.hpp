#pragma once

#include <signal.h>

#include <future>
#include <system_error>

namespace terrace::detail {

/// Blocks all signals in this thread for its lifetime. Threads that start meanwhile get none, since signals are the
/// program's.
class [[nodiscard]] blocked_signals {
public:
    blocked_signals() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    blocked_signals(const blocked_signals&) = delete;
    blocked_signals& operator=(const blocked_signals&) = delete;
    ~blocked_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

/// Starts a task in a thread of its own that gets no signals; where no thread can start, get() of the future runs it.
/// @param task without arguments; copied
template <class Task>
auto start_quiet_task(const Task& task) {
    const blocked_signals none;
    try {
        return std::async(std::launch::async, task);
    } catch (const std::system_error&) {
        return std::async(std::launch::deferred, task);
    }
}

}  // namespace terrace::detail
