#pragma once

#include <terrace/export.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <utility>

namespace terrace {

namespace detail {
struct call_source;
struct request_access;
}  // namespace detail

/// A collective that has been started. Its buffers belong to the call until the request is complete. Move-only; a
/// request that is default-constructed, moved from or waited for is complete. To be used by the communicator's thread;
/// by one thread at a time where options::threads is `any`.
/// A request may outlive its communicator: test() and wait() then throw usage_error, and the destructor does nothing.
class [[nodiscard]] TERRACE_API request {
public:
    /// Makes a complete request.
    request() noexcept = default;
    request(request&& other) noexcept
        : source_(std::exchange(other.source_, nullptr)), life_(other.life_), call_(other.call_) {}
    /// Waits for the call that this request stood for, as the destructor does.
    request& operator=(request&& other) noexcept;
    /// Waits for the call and drops its error, if it has one. Call wait() to get errors.
    ~request() {
        if (source_ != nullptr) drop();
    }

    /// Moves all calls of the communicator along. Returns true if this one is complete.
    /// @throws what the call itself does; the request is then complete
    bool test();
    /// Returns once the call is complete. @throws as test()
    void wait();
    /// Calls `done` once when the call is complete, with null, or else with the error that wait() would have thrown.
    /// The request is complete from here on as far as this object goes, and need not be kept.
    ///
    /// `done` is called by whichever thread moves the call along: inside then() if the call is complete already, else
    /// inside test() or wait(), or by the communicator's own thread where it has one (options::threads,
    /// options::progress_thread). It may start calls, and should neither wait for them nor throw: what it throws is
    /// logged. A communicator that is destroyed sooner calls it with a usage_error.
    /// @throws usage_error for a call of device buffers: wait for its stream
    void then(std::function<void(std::exception_ptr)> done);

private:
    friend struct detail::request_access;
    request(detail::call_source& source, std::uint64_t life, std::uint64_t call) noexcept
        : source_(&source), life_(life), call_(call) {}
    void drop() noexcept;

    detail::call_source* source_ = nullptr;  // null: complete
    std::uint64_t life_ = 0;                 // of the source
    std::uint64_t call_ = 0;
};

/// Waits for all requests. They may complete in any order.
/// @throws the first error, once all other requests are complete or have failed as well
TERRACE_API void wait_all(std::span<request> requests);

}  // namespace terrace
