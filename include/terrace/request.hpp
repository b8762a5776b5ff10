#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <terrace/export.hpp>

namespace terrace {

/// The calls of a communicator that are in flight: for Terrace's own parts.
class TERRACE_API calls_in_flight {
public:
    calls_in_flight(const calls_in_flight&) = delete;
    virtual bool test(std::uint64_t call) = 0;
    virtual void wait(std::uint64_t call) = 0;
    /// Where they are; points to null once they are gone.
    const std::shared_ptr<calls_in_flight*>& place() const noexcept { return place_; }

protected:
    calls_in_flight() : place_(std::make_shared<calls_in_flight*>(this)) {}
    ~calls_in_flight() { *place_ = nullptr; }

private:
    std::shared_ptr<calls_in_flight*> place_;
};

/// A collective that has been started. Its buffers belong to it until it is complete. Move-only; one that is
/// default-constructed, moved from or waited for is complete. Used by the communicator's thread. Of one that outlives
/// its communicator test() and wait() throw usage_error, and the destructor does nothing.
class [[nodiscard]] TERRACE_API request {
public:
    request() noexcept = default;
    request(request&& other) noexcept = default;
    request& operator=(request&& other) noexcept;
    /// Waits, and drops the error if there is one: wait() reports it.
    ~request();

    /// Moves all calls of the communicator along; whether this one is complete.
    /// @throws as the call itself does; the request is then complete
    bool test();
    /// Returns once the call is complete. @throws likewise
    void wait();

    /// For Terrace's own parts.
    request(const calls_in_flight& calls, std::uint64_t call) noexcept : calls_(calls.place()), call_(call) {}

private:
    std::shared_ptr<calls_in_flight*> calls_;  // null: complete
    std::uint64_t call_ = 0;
};

/// Waits for all of them, in any order. @throws the first error, once the others are complete or broken as well
TERRACE_API void wait_all(std::span<request> requests);

}  // namespace terrace
