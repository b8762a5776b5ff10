#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace terrace::detail {

/// Admits one thread at a time to a communicator. Has a thread of its own, which makes progress on calls while callers
/// do not.
///
/// A thread that uses the communicator holds the lock. A single caller makes progress while it waits. If another thread
/// waits for the lock, the driver's thread takes over, and both callers sleep until their calls are complete. The
/// driver's thread pauses when no caller sleeps, and the next caller makes progress itself again.
class driver {
public:
    using lock = std::unique_lock<std::mutex>;

    /// The work of the thread, done with the lock held.
    struct work {
        std::function<bool()> there;      ///< returns true if there is work although no caller sleeps
        std::function<bool(lock&)> step;  ///< does part of the work, may release the lock; false: nothing moved
    };

    /// @param core core for the thread (bind_thread_to_core_from_end), which then does all work. Without one, the
    /// thread works only under contention or for `there`.   @throws std::system_error if no thread can start
    driver(std::optional<int> core, work w);
    /// Stops the thread and waits for its end. Other threads may use the driver until this returns.
    void stop() {
        thread_.request_stop();
        thread_.join();
    }

    /// Waits for the lock.
    lock hold();
    /// Wakes the thread if there is work for it. The lock must be held.
    void wake() {
        if (!drives_ && is_needed()) there_.notify_one();
    }
    /// Sleeps until holds() is true, and returns true, if the thread makes progress or another one waits for the lock.
    /// Else returns false at once: the caller must make progress. @param holds called by the thread, with the lock held
    bool sleep_until(lock& held, const std::function<bool()>& holds);

private:
    struct sleeper {
        const std::function<bool()>& holds;
        std::atomic<std::uint32_t> up{0};
    };

    void run(const std::stop_token& stop);
    bool is_needed() { return drives_ = !sleepers_.empty() || work_.there(); }

    const std::optional<int> core_;
    work work_;
    std::mutex one_lock_;         // the communicator's one lock; README.md has the order of all locks
    std::atomic<int> wanted_{0};  // number of threads that wait for the lock
    std::condition_variable_any there_;
    std::vector<sleeper*> sleepers_;
    std::thread::id self_;
    bool drives_ = false;  // true while the thread makes progress on calls
    std::jthread thread_;  // last, since it uses the other members
};

}  // namespace terrace::detail
