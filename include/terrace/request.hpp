#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include <terrace/export.hpp>

namespace terrace {

/// The calls of a communicator that are in flight: for Terrace's own parts.
class TERRACE_API calls_in_flight {
public:
    virtual bool test(std::uint64_t call) = 0;
    virtual void wait(std::uint64_t call) = 0;

protected:
    ~calls_in_flight() = default;
};

/// A collective that has been started. Its buffers belong to it until it is complete. Move-only; one that is
/// default-constructed, moved from or waited for is complete. Used by the communicator's thread, and no longer than the
/// communicator lives.
class [[nodiscard]] TERRACE_API request {
public:
    request() noexcept = default;
    request(request&& other) noexcept : calls_(std::exchange(other.calls_, nullptr)), call_(other.call_) {}
    request& operator=(request&& other) noexcept;
    /// Waits, and drops the error if there is one: wait() reports it.
    ~request();

    /// Moves all calls of the communicator along; whether this one is complete.
    /// @throws as the call itself does; the request is then complete
    bool test();
    /// Returns once the call is complete. @throws likewise
    void wait();

    /// For Terrace's own parts.
    request(calls_in_flight& calls, std::uint64_t call) noexcept : calls_(&calls), call_(call) {}

private:
    calls_in_flight* calls_ = nullptr;
    std::uint64_t call_ = 0;
};

/// Waits for all of them, in any order. @throws the first error, once the others are complete or broken as well
TERRACE_API void wait_all(std::span<request> requests);

}  // namespace terrace
