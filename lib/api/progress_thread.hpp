#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace terrace::detail {

/// A thread that moves the calls of a communicator along while there are any. Whoever else uses the communicator holds
/// its lock meanwhile.
class progress_thread {
public:
    using lock = std::unique_lock<std::mutex>;

    struct work {
        std::function<bool()> there;  ///< whether there is anything to do; with the lock held, as the next
        std::function<bool()> step;   ///< does some of it; false if there was nothing to do just now
    };

    /// @param core to run on: bind_thread_to_core_from_end
    progress_thread(int core, work w);
    ~progress_thread();

    /// Lets others in between two steps.
    lock hold();
    /// There may be work.
    void wake() { there_.notify_one(); }
    /// Returns when `holds`, which is asked after each step. The lock must be held.
    template <class Condition>
    void wait(lock& held, Condition holds) {
        stepped_.wait(held, holds);
    }

private:
    void run(const std::stop_token& stop, int core);

    work work_;
    std::mutex guard_;
    std::atomic<int> wanted_{0};  // who waits for the lock
    std::condition_variable_any there_;
    std::condition_variable stepped_;
    std::jthread thread_;  // last: it uses the others
};

}  // namespace terrace::detail
