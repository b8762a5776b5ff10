#pragma once

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

namespace terrace::detail {

/// Blocks all signals in this thread for its lifetime. Threads that start meanwhile receive no signals, since signals
/// belong to the program.
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

/// Installs `handler` for a signal, unless the program has changed the default handling of the signal.
inline void answer_signal(int number, void (*handler)(int)) {
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
    struct sigaction ours {};
    ours.sa_handler = handler;
    ours.sa_flags = SA_RESTART;
    ::sigaction(number, &ours, nullptr);
}

/// Starts a task in its own thread, without signals; if no thread can start, get() of the future runs the task.
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

/// Calls work(i) for each i below n in as many threads as there are cores. Calls begin in the order of i.
/// @throws the exception of one of the calls, when all threads have ended
template <class Work>
void for_each_on_all_cores(std::size_t n, const Work& work) {
    std::atomic<std::size_t> next = 0;
    const auto go_on = [&] {
        for (std::size_t i = next++; i < n; i = next++) work(i);
    };
    std::vector<std::future<void>> others;
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t t = 1; t < std::min(cores, n); ++t) others.push_back(start_quiet_task(go_on));
    go_on();
    for (std::future<void>& other : others) other.get();
}

}  // namespace terrace::detail
