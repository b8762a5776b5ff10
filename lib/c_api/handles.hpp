#pragma once

#include <string>

#include <fmt/format.h>

#include <terrace/terrace.h>
#include <terrace/communicator.hpp>
#include <terrace/error.hpp>
#include <terrace/options.hpp>
#include <terrace/plan.hpp>
#include <terrace/request.hpp>
#include <terrace/window.hpp>

// Definitions of the handles of <terrace/terrace.h>.

struct terrace_options {
    terrace::options of;
};

struct terrace_plan {
    terrace::plan of;
};

struct terrace_communicator {
    terrace::communicator of;
    std::string shape = {}, statistics = {};  // last results of terrace_shape and terrace_statistics
};

struct terrace_request {
    terrace::request of;
};

struct terrace_window {
    terrace::window<std::byte> of;
};

namespace terrace::detail {

/// Keeps the current exception for terrace_last_error() on this thread. @returns its status
terrace_status keep_error() noexcept;

/// Runs an action that may throw. Returns a status for C.
template <class Action>
terrace_status guarded(Action action) noexcept {
    try {
        action();
        return terrace_ok;
    } catch (...) {
        return keep_error();
    }
}

/// Returns the object at a pointer of the caller. @throws usage_error with the pointer's name if it is null
template <class T>
T& existing(T* pointer, const char* name) {
    if (pointer != nullptr) return *pointer;
    throw usage_error(fmt::format("{} is NULL", name));
}

/// Calls action(communicator), which may throw.
template <class Action>
terrace_status with(terrace_communicator* communicator, Action action) noexcept {
    return guarded([&] { action(existing(communicator, "communicator").of); });
}

/// Returns the type or the reduction of a call. @throws usage_error for unknown numbers
element_type known(int type);
reduction known(const terrace_reduction& by);

/// Rejects a waiting call while this thread has a group of the communicator open. @throws usage_error
void expect_no_group(const terrace_communicator& communicator);

/// Starts a call by start(communicator). Stores its request, or waits for the call if `request` is null.
template <class Start>
terrace_status make(terrace_communicator* communicator, terrace_request** request, Start start) {
    return guarded([&] {
        terrace_communicator& c = existing(communicator, "communicator");
        if (request != nullptr) {
            *request = new terrace_request{start(c.of)};
            return;
        }
        expect_no_group(c);
        start(c.of).wait();
    });
}

/// Rethrows the exception of the last call that failed on this thread. If none has failed, throws an error with the
/// name `who`.
[[noreturn]] void rethrow_error(const std::string& who);

}  // namespace terrace::detail
