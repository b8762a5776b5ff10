#include "api/driver.hpp"

#include <sched.h>

#include "topology/bind.hpp"

namespace terrace::detail {

driver::driver(std::optional<int> core, work w)
    : core_(core), work_(std::move(w)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

driver::lock driver::hold() {
    constexpr int tries = 16;  // before the thread sleeps; a step usually takes less time than these
    lock held(one_lock_, std::defer_lock);
    if (wanted_ == 0 && held.try_lock()) return held;
    ++wanted_;
    for (int i = 0; i < tries && !held.try_lock(); ++i) sched_yield();
    if (!held) held.lock();
    --wanted_;
    return held;
}

bool driver::sleep_until(lock& held, const std::function<bool()>& holds) {
    const bool alone = !core_ && !drives_ && wanted_ == 0;
    if (alone || self_ == std::this_thread::get_id()) return false;
    sleeper me{holds};
    sleepers_.push_back(&me);
    wake();
    held.unlock();
    me.up.wait(0);
    held = hold();
    return true;
}

void driver::run(const std::stop_token& stop) {
    if (core_) bind_thread_to_core_from_end(*core_);
    lock held(one_lock_);
    self_ = std::this_thread::get_id();
    while (!stop.stop_requested() && there_.wait(held, stop, [this] { return is_needed(); })) {
        const bool moved = work_.step(held);
        std::erase_if(sleepers_, [](sleeper* s) {
            if (!s->holds()) return false;
            s->up = 1;
            s->up.notify_one();
            return true;
        });
        held.unlock();
        // A mutex is not fair: the thread that has just released it would usually get it again.
        do {
            if (!moved || wanted_ > 0) sched_yield();
        } while (wanted_ > 0);
        held.lock();
    }
}

}  // namespace terrace::detail
