#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/options.hpp>

#include "transport/team.hpp"

namespace terrace::detail {

/// The failure that broke a communicator, if any. After a failed call, other ranks may have begun calls that this rank
/// never makes, so no later call can match: the communicator stays broken.
class failure_state {
public:
    bool is_broken() const noexcept { return first_ != nullptr || given_up_ != nullptr; }
    /// Throws the failure again if there is one.
    void rethrow() const;
    /// Breaks the communicator without a failure of its own calls. Any thread may call this, without a lock.
    /// @param why text of the errors that calls in flight and later calls throw; a literal
    void give_up(const char* why) noexcept { given_up_ = why; }
    /// @param call the name of the call that is about to begin   @throws usage_error if the communicator is broken
    void expect_none(std::string_view call) const;

    /// Runs `action`. If it throws, breaks the communicator, runs at_failure and throws the same exception.
    template <class Action>
    void latch(Action action) {
        try {
            action();
        } catch (...) {
            if (!first_) first_ = std::current_exception();
            at_failure();
            throw;
        }
    }

    /// Called when the communicator breaks, to end other work. Set once, by the communicator's core.
    std::function<void()> at_failure = [] {};

private:
    std::exception_ptr first_;
    std::atomic<const char*> given_up_{nullptr};  // reason; null: give_up() has not been called
};

/// Runs an action. Returns the exception that it threw; null if none.
template <class Action>
std::exception_ptr error_in(Action action) {
    try {
        action();
        return nullptr;
    } catch (...) {
        return std::current_exception();
    }
}

/// Runs an action whose failure does no harm. Logs a failure as a warning, which begins with `what`.
template <class Action>
void or_warn(const options& o, std::string_view what, Action action) {
    try {
        action();
    } catch (const std::exception& e) {
        if (o.log) o.log(log_level::warn, std::string(what) + e.what());
    }
}

/// Runs an action that may fail on one rank alone while a communicator is created. If it does, the other ranks fail as
/// well, so they do not wait. Collective. @param callers_rank the caller's rank numbers, by rank of `all`
/// @throws usage_error on all ranks if it failed on any, naming the lowest such rank of `all`
void on_all_ranks(const std::vector<int>& callers_rank, team& all, const std::function<void()>& action);

}  // namespace terrace::detail
