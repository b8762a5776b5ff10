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

/// The states of a call in the queue. A call of one part that may begin at once, outside a group, has no object: it
/// runs, and its request asks the engine. An uneven_call always has an object.
///
///     queued ---> comparing ---> running ---> done
///        ^            |             | |
///        |            +---> failed <+ |
///        +------- another part -------+
enum class call_state : std::uint8_t {
    queued,     ///< others begin before it, or its group is open
    comparing,  ///< ranks compare it, if they have to
    running,    ///< it has begun. It stays so where nothing is left to do when the engine has ended it: is_complete()
    done,       ///< it is complete
    failed,     ///< this rank alone cannot begin or end it, or begin its next part. Calls that differ between ranks do
                ///< not lead here: they break the communicator (failure_state).
};

/// A call with its buffers.
struct full_call {
    call_shape shape;
    call_buffers buffers = {};
    double factor = 1;  ///< of this rank's elements, of premul_sum
};

/// What is particular to a kind of call: how it begins, and what is left to do then.
class call_work {
public:
    /// What is left to do once what has begun is complete.
    enum class rest { nothing, an_end, another_part };

    call_work() = default;
    call_work(const call_work&) = delete;
    call_work& operator=(const call_work&) = delete;
    virtual ~call_work() = default;

    /// Begins the call. Returns its number in the engine, 0 if it has nothing to run.
    virtual std::uint64_t issue(call_runner& runner, const full_call& c);
    virtual rest left() const noexcept = 0;
    /// Does what is left. Returns the part that comes next, if there is one: a call of its own, as ranks compare it.
    /// @throws usage_error
    virtual std::optional<full_call> go_on() = 0;
};

/// A call in the queue: call_state says which calls are there.
class call {
public:
    /// @param work null: nothing is left to do once it has begun
    /// @param s `comparing` if call_check::start has begun to compare it
    call(full_call c, std::unique_ptr<call_work> work, call_state s)
        : what_(std::move(c)), work_(std::move(work)), state_(s) {}

    const call_shape& shape() const noexcept { return what_.shape; }
    /// Lets it carry another call of `count` elements, which its work has taken, before it begins.
    void carry(std::int64_t count);

    /// Moves it on to its next state, if it can. Returns true if so. Nothing else changes its state.
    /// @throws what breaks the communicator
    bool step(call_runner& runner, call_check& check, failure_state& failure);
    /// Returns true if the calls behind it may begin.
    bool lets_next_begin() const noexcept {
        return needs_no_step() || (state_ == call_state::running && left() == call_work::rest::an_end);
    }
    /// Returns true if nothing is left to do for it but what the engine does.
    bool needs_no_step() const noexcept {
        return state_ == call_state::done || state_ == call_state::failed ||
               (state_ == call_state::running && left() == call_work::rest::nothing);
    }
    /// Returns true if it is over.
    bool is_complete(const call_runner& runner) const noexcept;
    /// Returns why it has failed; null if it has not.
    const std::exception_ptr& error() const noexcept { return error_; }

private:
    call_work::rest left() const noexcept { return work_ ? work_->left() : call_work::rest::nothing; }

    full_call what_;
    std::unique_ptr<call_work> work_;  // null where nothing is left
    call_state state_;
    std::uint64_t number_ = 0;  // in the engine, of the part that runs
    std::exception_ptr error_;
};

/// The calls that have to wait, and all uneven ones, by ticket: until they are over, and all requests have been told.
/// All ranks begin them in one order, each once ranks have compared it.
class call_queue {
public:
    /// All must outlive this.
    call_queue(call_runner& runner, call_check& check, failure_state& failure)
        : runner_(runner), check_(check), failure_(failure) {}

    /// Adds a call, which begins once enqueue() has been called. Returns its ticket, from 1.
    std::uint64_t add(full_call c, std::unique_ptr<call_work> work = {}, call_state s = call_state::queued) {
        entries_.push_back({call(std::move(c), std::move(work), s)});
        return first_ + entries_.size() - 1;
    }
    /// Lets one more request ask for the call: close() is called as often.
    void share(std::uint64_t ticket) noexcept { ++of(ticket).holders; }
    call& operator[](std::uint64_t ticket) noexcept { return of(ticket).what; }
    /// The call begins behind those that are in the order already.
    void enqueue(std::uint64_t ticket) { waiting_.push_back(ticket); }

    /// Returns true if no call waits to begin.
    bool none_waits() const noexcept { return waiting_.empty(); }
    /// Begins calls in their order, as far as they may. Whoever makes progress calls it, and end_complete().
    /// @throws what breaks the communicator
    void begin_waiting();
    /// Ends calls that the engine has ended, where something is left to do.
    void end_complete();

    /// Returns true if the call is over.
    bool done(std::uint64_t ticket) const noexcept {
        return ticket < first_ || entries_[ticket - first_].what.is_complete(runner_);
    }
    /// Says that a request asks no more. Returns why the call has failed, or null.
    std::exception_ptr close(std::uint64_t ticket);
    /// Keeps all calls for the rest of the process: the network may still work on their memory.
    void keep_for_ever() { detail::keep_for_ever(std::exchange(entries_, {})); }

private:
    struct entry {
        call what;
        int holders = 1;  // requests
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
    std::deque<entry> entries_;          // from ticket first_ on
    std::deque<std::uint64_t> waiting_;  // in the order in which they begin
    std::vector<std::uint64_t> ending_;  // that run and have an end
};

}  // namespace terrace::detail
