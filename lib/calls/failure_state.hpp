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

/// Whether a communicator is broken, and why. Once a call has failed, some ranks may have gone on to calls that this
/// rank never makes, so that no later call can match: the communicator stays broken.
class failure_state {
public:
    bool is_broken() const noexcept { return first_ != nullptr || given_up_ != nullptr; }
    /// Throws the failure again if there is one.
    void rethrow() const;
    /// Breaks the communicator where no call of its own has failed. Any thread, without a lock.
    /// @param why what calls in flight and later calls throw; a literal
    void give_up(const char* why) noexcept { given_up_ = why; }
    /// @param call the name of the call that is about to begin   @throws usage_error if the communicator is broken
    void expect_none(std::string_view call) const;

    /// Runs `action`. If it throws, the communicator is broken: runs at_failure and throws what `action` threw.
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

    /// What else ends when the communicator breaks; set once, by its core.
    std::function<void()> at_failure = [] {};

private:
    std::exception_ptr first_;
    std::atomic<const char*> given_up_{nullptr};  // why
};

/// Runs an action. Returns what it threw; null: nothing.
template <class Action>
std::exception_ptr error_in(Action action) {
    try {
        action();
        return nullptr;
    } catch (...) {
        return std::current_exception();
    }
}

/// Runs what may fail without harm. The log says why it has failed, behind `what`.
template <class Action>
void or_warn(const options& o, std::string_view what, Action action) {
    try {
        action();
    } catch (const std::exception& e) {
        if (o.log) o.log(log_level::warn, std::string(what) + e.what());
    }
}

/// Runs what one rank may fail at alone while a communicator is created, so that the other ranks fail too and do not
/// wait for that one. Collective. @param callers_rank the caller's numbering by rank of `all`
/// @throws usage_error on all ranks if it failed on any, naming the lowest such rank of `all`
void on_all_ranks(const std::vector<int>& callers_rank, team& all, const std::function<void()>& action);

}  // namespace terrace::detail
