#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/keep_for_ever.hpp"
#include "control/call_order/signature.hpp"
#include "executor/call_buffers.hpp"

namespace terrace::detail {

class call_check;
class call_runner;
class failure_state;

/// The states of a call in the queue. A call of one part that may begin at once, outside a group, is not in the queue:
/// it is issued, and its request refers to the engine. An uneven_call is always in the queue.
///
///     queued ---> comparing ---> running ---> done
///        ^            |             | |
///        |            +---> failed <+ |
///        +------- another part -------+
enum class call_state : std::uint8_t {
    queued,     ///< waits for earlier calls, for a change of plans, or for the end of its group
    comparing,  ///< ranks compare the call, if necessary
    running,    ///< issued. If nothing is left to do after the engine's part, remains `running`: is_complete()
    done,       ///< complete
    failed,     ///< this rank alone failed to begin or end the call, or to begin its next part. Calls that differ
                ///< between ranks do not end here: they break the communicator (failure_state).
};

/// A call with its buffers.
struct full_call {
    call_shape shape;
    call_buffers buffers = {};
    double factor = 1;  ///< of premul_sum, for this rank's elements
};

/// The part of a call that depends on its kind: how the call begins, and the work that follows.
class call_work {
public:
    /// Work that is left when the part in the engine is complete.
    enum class rest { nothing, an_end, another_part };

    call_work() = default;
    call_work(const call_work&) = delete;
    call_work& operator=(const call_work&) = delete;
    virtual ~call_work() = default;

    /// Begins the call. Returns its number in the engine; 0 if there is nothing to run.
    virtual std::uint64_t issue(call_runner& runner, const full_call& c);
    virtual rest left() const noexcept = 0;
    /// Does the work that is left. Returns the next part, if any; ranks compare this part as a separate call.
    /// @throws usage_error
    virtual std::optional<full_call> go_on() = 0;
};

/// A call in the queue. The comment on call_state lists the calls that are there.
class call {
public:
    /// @param work null: no work is left after the call has begun
    /// @param s `comparing` if call_check::start has begun to compare the call
    call(full_call c, std::unique_ptr<call_work> work, call_state s)
        : what_(std::move(c)), work_(std::move(work)), state_(s) {}

    const call_shape& shape() const noexcept { return what_.shape; }
    /// Joins another call of `count` elements to this one, which has not begun. `work` has its buffers already.
    void carry(std::int64_t count);

    /// Moves the call to its next state, if possible. No other function changes the state. Returns false if the call
    /// has to wait, in its state or in `comparing`. @throws errors that break the communicator
    bool step(call_runner& runner, call_check& check, failure_state& failure);
    /// Returns true if later calls may begin.
    bool lets_next_begin() const noexcept {
        return needs_no_step() || (state_ == call_state::running && left() == call_work::rest::an_end);
    }
    /// Returns true if nothing is left to do for the call, except in the engine.
    bool needs_no_step() const noexcept {
        return state_ == call_state::done || state_ == call_state::failed ||
               (state_ == call_state::running && left() == call_work::rest::nothing);
    }
    /// Returns true if the call is complete or has failed.
    bool is_complete(const call_runner& runner) const noexcept;
    /// Returns the error of a failed call; null if it has not failed.
    const std::exception_ptr& error() const noexcept { return error_; }

private:
    call_work::rest left() const noexcept { return work_ ? work_->left() : call_work::rest::nothing; }

    full_call what_;
    std::unique_ptr<call_work> work_;  // null if no work is left
    call_state state_;
    std::uint64_t number_ = 0;  // number of the current part in the engine
    std::exception_ptr error_;
};

/// The calls that have to wait, and all uneven calls, by ticket. A call remains here until it is complete and all its
/// requests are closed. All ranks begin these calls in the same order, each after its comparison.
class call_queue {
public:
    /// All arguments must outlive the queue.
    call_queue(call_runner& runner, call_check& check, failure_state& failure)
        : runner_(runner), check_(check), failure_(failure) {}

    /// Adds a call, which may begin after enqueue(). Returns its ticket, from 1.
    std::uint64_t add(full_call c, std::unique_ptr<call_work> work = {}, call_state s = call_state::queued) {
        entries_.push_back({call(std::move(c), std::move(work), s)});
        return first_ + entries_.size() - 1;
    }
    /// Adds a request to the call. Each request calls close() once.
    void share(std::uint64_t ticket) noexcept { ++of(ticket).holders; }
    call& operator[](std::uint64_t ticket) noexcept { return of(ticket).what; }
    /// Appends the call to the order in which calls begin.
    void enqueue(std::uint64_t ticket) { waiting_.push_back(ticket); }

    /// Returns true if no call waits to begin.
    bool none_waits() const noexcept { return waiting_.empty(); }
    /// Begins calls in their order, until one has to wait. To be called repeatedly, like end_complete().
    /// @throws errors that break the communicator
    void begin_waiting();
    /// Ends the calls that are complete in the engine, if work is left for them.
    void end_complete();

    /// Returns true if the call is complete or has failed.
    bool done(std::uint64_t ticket) const noexcept {
        return ticket < first_ || entries_[ticket - first_].what.is_complete(runner_);
    }
    /// Closes one request of the call. Returns the error of the call, or null.
    std::exception_ptr close(std::uint64_t ticket);
    /// Keeps all calls until the process ends, since the network may still use their memory.
    void keep_for_ever() { detail::keep_for_ever(std::exchange(entries_, {})); }

private:
    struct entry {
        call what;
        int holders = 1;  // open requests
    };
    entry& of(std::uint64_t ticket) noexcept { return entries_[ticket - first_]; }
    void forget() {
        for (; !entries_.empty() && entries_.front().holders == 0 && entries_.front().what.needs_no_step(); ++first_)
            entries_.pop_front();
    }

    call_runner& runner_;
    call_check& check_;
    failure_state& failure_;
    std::uint64_t first_ = 1;
    std::deque<entry> entries_;          // by ticket, from first_
    std::deque<std::uint64_t> waiting_;  // tickets in the order in which calls begin
    std::vector<std::uint64_t> ending_;  // tickets of running calls with work left
};

}  // namespace terrace::detail
