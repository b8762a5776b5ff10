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

// What the handles of <terrace/terrace.h> are.

struct terrace_options {
    terrace::options of;
};

struct terrace_plan {
    terrace::plan of;
};

struct terrace_communicator {
    terrace::communicator of;
    std::string shape = {}, statistics = {};  // what these functions have returned
};

struct terrace_request {
    terrace::request of;
};

struct terrace_window {
    terrace::window<std::byte> of;
};

namespace terrace::detail {

/// Keeps the exception that is being handled for terrace_last_error() on this thread. @returns its class
terrace_status keep_error() noexcept;

/// Runs an action that may throw, at the border to C.
template <class Action>
terrace_status guarded(Action action) noexcept {
    try {
        action();
        return terrace_ok;
    } catch (...) {
        return keep_error();
    }
}

/// Returns what a pointer of the caller's leads to. @throws usage_error where it is null, with its name
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

/// Returns the type, the reduction of a call. @throws usage_error for numbers that are none
element_type known(int type);
reduction known(const terrace_reduction& by);

/// Refuses a call that waits while this thread has a group of the communicator open. @throws usage_error
void expect_no_group(const terrace_communicator& communicator);

/// Starts a call by start(communicator), and waits for it unless the caller has a place for its request.
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

/// Throws again what the last call that failed on this thread threw; if `failed` is false, or none has failed,
/// something that says so of `who`.
[[noreturn]] void rethrow_error(const std::string& who);

}  // namespace terrace::detail
