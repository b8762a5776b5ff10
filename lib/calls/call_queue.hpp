#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <vector>

#include "calls/call.hpp"

namespace terrace::detail {

/// The calls that have to wait, and all uneven ones, by ticket: until they are over, and all requests have been told.
/// All ranks begin them in one order, each once ranks have compared it.
class call_queue {
public:
    /// All must outlive this.
    call_queue(call_runner& runner, call_check& check, failure_state& failure)
        : runner_(runner), check_(check), failure_(failure) {}

    /// Adds a call, which begins once enqueue() has been called. Returns its ticket, from 1.
    std::uint64_t add(call_shape shape, std::unique_ptr<call_work> work, call_state s = call_state::queued);
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
    void keep_for_ever();

private:
    struct entry {
        call what;
        int holders = 1;  // requests
    };
    entry& of(std::uint64_t ticket) noexcept { return entries_[ticket - first_]; }
    void forget();

    call_runner& runner_;
    call_check& check_;
    failure_state& failure_;
    std::uint64_t first_ = 1;
    std::deque<entry> entries_;          // from ticket first_ on
    std::deque<std::uint64_t> waiting_;  // in the order in which they begin
    std::vector<std::uint64_t> ending_;  // that run and have an end
};

}  // namespace terrace::detail
