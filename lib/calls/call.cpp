#include "calls/call.hpp"

#include <utility>

#include <terrace/error.hpp>

#include "calls/call_runner.hpp"
#include "calls/failure_state.hpp"
#include "control/call_order/call_check.hpp"

namespace terrace::detail {

std::uint64_t one_call::issue(call_runner& runner, const call_shape& call) {
    return runner.issue(call, buffers_, factor_);
}

void call::carry(std::int64_t count) {
    if (shape_.joined.empty()) shape_.joined.push_back(shape_.count);
    shape_.joined.push_back(count);
    shape_.count += count;
}

bool call::step(call_runner& runner, call_check& check, failure_state& failure) {
    switch (state_) {
        case call_state::queued:
        case call_state::comparing: {
            if (state_ == call_state::queued && !runner.follow_plan()) return false;
            bool may_run = false;
            const bool begins = std::exchange(state_, call_state::comparing) == call_state::queued;
            failure.latch([&] { may_run = begins ? check.start(shape_, signature_of(shape_)) : check.advance(); });
            if (!may_run) return false;
            error_ = error_in([&] { number_ = work_->issue(runner, shape_); });
            state_ = error_ ? call_state::failed : call_state::running;
            break;
        }
        case call_state::running: {
            if (left() == call_work::rest::nothing || !runner.done(number_)) return false;
            std::optional<call_part> next;
            error_ = error_in([&] { next = work_->go_on(); });
            if (next) {
                shape_ = std::move(next->call);
                if (const std::string wrong = runner.objection_to(shape_, next->send, next->recv); !wrong.empty()) {
                    failure.latch([&] { check.meet_refused(shape_, wrong); });
                    error_ = std::make_exception_ptr(refusal_of(shape_, wrong));
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

bool call::lets_next_begin() const noexcept {
    return needs_no_step() || (state_ == call_state::running && left() == call_work::rest::an_end);
}

bool call::needs_no_step() const noexcept {
    return state_ == call_state::done || state_ == call_state::failed ||
           (state_ == call_state::running && left() == call_work::rest::nothing);
}

bool call::is_complete(const call_runner& runner) const noexcept {
    return needs_no_step() && (state_ != call_state::running || runner.done(number_));
}

}  // namespace terrace::detail
