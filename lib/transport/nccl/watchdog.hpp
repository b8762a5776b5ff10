#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace terrace::detail {

/// A thread that calls a function at regular intervals while there is work, and sleeps otherwise.
class watchdog {
public:
    /// Functions that the thread calls, with the lock held.
    struct duty {
        std::function<void()> start;     ///< called once, first
        std::function<bool()> has_work;  ///< true while look() is needed
        std::function<void()> look;
    };

    /// @param guard must outlive this
    watchdog(std::mutex& guard, duty d)
        : guard_(guard), duty_(std::move(d)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

    /// Wakes the thread, since there may be work.
    void wake() noexcept { wake_.notify_one(); }

private:
    void run(const std::stop_token& stop) {
        constexpr auto interval = std::chrono::milliseconds(10);
        std::unique_lock lock(guard_);
        duty_.start();
        while (!stop.stop_requested()) {
            if (!wake_.wait(lock, stop, duty_.has_work)) return;
            wake_.wait_for(lock, stop, interval, [] { return false; });
            duty_.look();
        }
    }

    std::mutex& guard_;
    const duty duty_;
    std::condition_variable_any wake_;
    std::jthread thread_;  // must be the last member
};

}  // namespace terrace::detail
