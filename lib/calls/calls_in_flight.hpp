#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>

#include <terrace/request.hpp>

namespace terrace::detail {

using callback = std::function<void(std::exception_ptr)>;

/// Error text of requests that outlive their communicator.
inline constexpr const char* destroyed_too_soon =
    "request: its communicator was destroyed before the call was complete; wait for requests before you destroy "
    "their communicator";

class calls_in_flight;

/// Link from requests to the calls of a communicator, which requests may outlive. It is never freed: when a
/// communicator is destroyed, its source serves a later one, with a new `life`. So requests need no reference count.
struct call_source {
    std::atomic<calls_in_flight*> calls{nullptr};
    std::atomic<std::uint64_t> life{0};

    /// Returns a source for these calls.
    static call_source& acquire(calls_in_flight& of);
    /// Ends the use of the source, since its calls are being destroyed.
    void release() noexcept;
};

/// The calls in flight of a communicator, as an interface for requests.
class calls_in_flight {
public:
    calls_in_flight(const calls_in_flight&) = delete;

    /// Progresses all calls. Returns true if this call is complete. @throws as request::test
    virtual bool test(std::uint64_t call) = 0;
    /// Returns once the call is complete. @throws as request::wait
    virtual void wait(std::uint64_t call) = 0;
    /// Calls `f` once the call is complete. @throws usage_error if such calls have no callbacks
    virtual void then(std::uint64_t call, callback f) = 0;

    call_source& source() const noexcept { return source_; }

protected:
    calls_in_flight() : source_(call_source::acquire(*this)) {}
    ~calls_in_flight() { source_.release(); }

private:
    call_source& source_;
};

/// Lets Terrace's own parts make requests.
struct request_access {
    static request make(const calls_in_flight& calls, std::uint64_t call) {
        call_source& from = calls.source();
        return {from, from.life.load(std::memory_order_relaxed), call};
    }
};

}  // namespace terrace::detail
