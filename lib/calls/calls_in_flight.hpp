#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>

#include <terrace/request.hpp>

namespace terrace::detail {

using callback = std::function<void(std::exception_ptr)>;

/// What requests say that outlive their communicator.
inline constexpr const char* destroyed_too_soon =
    "request: its communicator was destroyed before the call was complete; wait for requests before you destroy "
    "their communicator";

class calls_in_flight;

/// Where requests find the calls of a communicator, which they may outlive. It is never freed: when a communicator has
/// gone, its source serves a later one, in another life. So a request needs no reference count.
struct call_source {
    std::atomic<calls_in_flight*> calls{nullptr};
    std::atomic<std::uint64_t> life{0};

    /// Returns one for these calls.
    static call_source& acquire(calls_in_flight& of);
    /// Says that the calls have gone.
    void release() noexcept;
};

/// The calls of a communicator that are in flight, as requests see them.
class calls_in_flight {
public:
    calls_in_flight(const calls_in_flight&) = delete;

    /// Moves all calls along. Returns true if this one is complete. @throws as request::test
    virtual bool test(std::uint64_t call) = 0;
    /// Returns once the call is complete. @throws as request::wait
    virtual void wait(std::uint64_t call) = 0;
    /// Calls `f` once the call is complete. @throws usage_error where it cannot
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
