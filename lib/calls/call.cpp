#include "calls/call.hpp"

#include <terrace/error.hpp>

#include "calls/call_runner.hpp"
#include "calls/failure_state.hpp"
#include "control/call_order/call_check.hpp"

namespace terrace::detail {

std::uint64_t call_work::issue(call_runner& runner, const full_call& c) {
    return runner.issue(c.shape, c.buffers, c.factor);
}

void call::carry(std::int64_t count) {
    call_shape& shape = what_.shape;
    if (shape.joined.empty()) shape.joined.push_back(shape.count);
    shape.joined.push_back(count);
    shape.count += count;
}

bool call::step(call_runner& runner, call_check& check, failure_state& failure) {
    switch (state_) {
        case call_state::queued:
        case call_state::comparing: {
            if (state_ == call_state::queued && !runner.follow_plan()) return false;
            bool may_run = false;
            const bool begins = std::exchange(state_, call_state::comparing) == call_state::queued;
            failure.latch([&] { may_run = begins ? check.start(shape(), signature_of(shape())) : check.advance(); });
            if (!may_run) return false;
            error_ = error_in([&] {
                number_ = work_ ? work_->issue(runner, what_) : runner.issue(shape(), what_.buffers, what_.factor);
            });
            state_ = error_ ? call_state::failed : call_state::running;
            break;
        }
        case call_state::running: {
            if (left() == call_work::rest::nothing || !runner.done(number_)) return false;
            std::optional<full_call> next;
            error_ = error_in([&] { next = work_->go_on(); });
            if (next) {
                what_ = std::move(*next);
                if (const std::string wrong = runner.objection_to(what_); !wrong.empty()) {
                    failure.latch([&] { check.meet_refused(shape(), wrong); });
                    error_ = std::make_exception_ptr(refusal_of(shape(), wrong));
                }
            }
            state_ = error_ ? call_state::failed : next ? call_state::queued : call_state::done;
            break;
        }
        case call_state::done:
        case call_state::failed: return false;
    }
    if (needs_no_step()) work_.reset();
    return true;
}

bool call::is_complete(const call_runner& runner) const noexcept {
    return needs_no_step() && (state_ != call_state::running || runner.done(number_));
}

// ---- the queue

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

}  // namespace terrace::detail
