#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

#include <terrace/request.hpp>

namespace terrace::detail {

using callback = std::function<void(std::exception_ptr)>;

/// What requests say that outlive their communicator.
inline constexpr const char* destroyed_too_soon =
    "request: its communicator was destroyed before the call was complete; wait for requests before you destroy "
    "their communicator";

/// The calls of a communicator that are in flight, as requests see them. A request holds a shared pointer to the
/// address of this object, which becomes null when the object is destroyed: requests may outlive it.
class calls_in_flight {
public:
    calls_in_flight(const calls_in_flight&) = delete;
    calls_in_flight& operator=(const calls_in_flight&) = delete;

    /// Moves all calls along. Returns true if this one is complete. @throws as request::test
    virtual bool test(std::uint64_t call) = 0;
    /// Returns once the call is complete. @throws as request::wait
    virtual void wait(std::uint64_t call) = 0;
    /// Calls `f` once the call is complete. @throws usage_error where it cannot
    virtual void then(std::uint64_t call, callback f) = 0;

    const std::shared_ptr<calls_in_flight*>& address() const noexcept { return address_; }

protected:
    calls_in_flight() : address_(std::make_shared<calls_in_flight*>(this)) {}
    ~calls_in_flight() { *address_ = nullptr; }

private:
    std::shared_ptr<calls_in_flight*> address_;
};

/// Lets Terrace's own parts make requests.
struct request_access {
    static request make(const calls_in_flight& calls, std::uint64_t call) { return {calls.address(), call}; }
};

}  // namespace terrace::detail
