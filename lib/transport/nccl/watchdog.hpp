#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace terrace::detail {

/// A thread that looks after something at regular intervals while there is work, and sleeps otherwise.
class watchdog {
public:
    /// Functions that it calls, with the lock held.
    struct duty {
        std::function<void()> start;     ///< once, at first
        std::function<bool()> has_work;  ///< true while look() is needed
        std::function<void()> look;
    };

    /// @param guard must outlive this
    watchdog(std::mutex& guard, duty d);

    /// Tells it that there may be work.
    void wake() noexcept { wake_.notify_one(); }

private:
    void run(const std::stop_token& stop);

    std::mutex& guard_;
    const duty duty_;
    std::condition_variable_any wake_;
    std::jthread thread_;  // last
};

}  // namespace terrace::detail
