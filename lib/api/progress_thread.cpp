#include "api/progress_thread.hpp"

#include <sched.h>

#include "topology/bind.hpp"

namespace terrace::detail {

progress_thread::progress_thread(int core, work w)
    : work_(std::move(w)), thread_([this, core](const std::stop_token& stop) { run(stop, core); }) {}

progress_thread::~progress_thread() = default;

progress_thread::lock progress_thread::hold() {
    ++wanted_;
    lock held(guard_);
    --wanted_;
    return held;
}

void progress_thread::run(const std::stop_token& stop, int core) {
    bind_thread_to_core_from_end(core);
    lock held(guard_);
    while (!stop.stop_requested() && there_.wait(held, stop, [this] { return work_.there(); })) {
        const bool moved = work_.step();
        if (moved) stepped_.notify_all();
        held.unlock();
        // A lock is not fair: who has just let it go would have it again.
        do {
            if (!moved || wanted_ > 0) sched_yield();
        } while (wanted_ > 0);
        held.lock();
    }
}

}  // namespace terrace::detail
