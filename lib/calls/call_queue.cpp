#include "calls/call_queue.hpp"

#include <utility>

#include "base/keep_for_ever.hpp"

namespace terrace::detail {

std::uint64_t call_queue::add(call_shape shape, std::unique_ptr<call_work> work, call_state s) {
    entries_.push_back({call(std::move(shape), std::move(work), s)});
    return first_ + entries_.size() - 1;
}

void call_queue::begin_waiting() {
    while (!waiting_.empty()) {
        call& next = of(waiting_.front()).what;
        while (!next.lets_next_begin())
            if (!next.step(runner_, check_, failure_)) return;
        if (!next.needs_no_step()) ending_.push_back(waiting_.front());
        waiting_.pop_front();
        forget();
    }
}

void call_queue::end_complete() {
    if (ending_.empty()) return;
    std::erase_if(ending_, [&](std::uint64_t ticket) {
        call& each = of(ticket).what;
        each.step(runner_, check_, failure_);
        return each.needs_no_step();
    });
    forget();
}

std::exception_ptr call_queue::close(std::uint64_t ticket) {
    entry& e = of(ticket);
    --e.holders;
    std::exception_ptr error = e.what.error();
    forget();
    return error;
}

void call_queue::forget() {
    for (; !entries_.empty() && entries_.front().holders == 0 && entries_.front().what.needs_no_step(); ++first_)
        entries_.pop_front();
}

void call_queue::keep_for_ever() { detail::keep_for_ever(std::exchange(entries_, {})); }

}  // namespace terrace::detail
