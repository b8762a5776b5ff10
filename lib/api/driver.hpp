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

/// Lets one thread at a time into a communicator, and has a thread of its own that moves calls along where callers do
/// not.
///
/// Who uses the communicator holds the lock meanwhile. A caller that is alone moves calls along while it waits. Where
/// another one wants to get in, the thread takes over: both then sleep until their calls are complete. It stops when
/// nobody sleeps any more, and the next caller is alone again.
class driver {
public:
    using lock = std::unique_lock<std::mutex>;

    /// What the thread does, with the lock held.
    struct work {
        std::function<bool()> there;      ///< true if there is work though nobody sleeps
        std::function<bool(lock&)> step;  ///< does some of it, and may let go of the lock; false if nothing moved
    };

    /// @param core to run on (bind_thread_to_core_from_end): the thread then does all that there is. Without, it
    /// takes over under contention alone.   @throws std::system_error if there cannot be a thread
    driver(std::optional<int> core, work w);
    /// Ends the thread. Others may use the driver until this returns.
    void stop() {
        thread_.request_stop();
        thread_.join();
    }

    /// Waits for the lock.
    lock hold();
    /// Says that there may be work though nobody sleeps. The lock must be held.
    void wake() {
        if (!drives_ && is_needed()) there_.notify_one();
    }
    /// Sleeps until `holds`, if the thread moves calls along, or another one wants the lock. Else returns false at
    /// once: the caller moves calls along. @param holds asked by the thread, with the lock held
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
    std::atomic<int> wanted_{0};  // threads that wait for the lock
    std::condition_variable_any there_;
    std::vector<sleeper*> sleepers_;
    std::thread::id self_;
    bool drives_ = false;  // the thread moves calls along
    std::jthread thread_;  // last: it uses the others
};

}  // namespace terrace::detail
