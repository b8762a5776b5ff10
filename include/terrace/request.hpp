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

/// A started collective, send or receive. Its buffers belong to the call until the request is complete. Move-only; a
/// request that is default-constructed, moved from or waited for is complete. Only the communicator's thread may use a
/// request; if options::threads is `any`, any one thread at a time.
/// A request may outlive its communicator: test() and wait() then throw usage_error, and the destructor does nothing.
class [[nodiscard]] TERRACE_API request {
public:
    /// Makes a complete request.
    request() noexcept = default;
    request(request&& other) noexcept
        : source_(std::exchange(other.source_, nullptr)), life_(other.life_), call_(other.call_) {}
    /// Waits for the previous call of this request, as the destructor does.
    request& operator=(request&& other) noexcept;
    /// Waits for the call and discards its error. Call wait() to get errors.
    ~request() {
        if (source_ != nullptr) drop();
    }

    /// Makes progress on all calls of the communicator. Returns true if this call is complete.
    /// @throws the error of the call; the request is then complete
    bool test();
    /// Returns once the call is complete. @throws as test()
    void wait();
    /// Calls `done` once when the call is complete, with null, or with the error that wait() would have thrown. This
    /// object is complete when then() returns, and need not be kept.
    ///
    /// The thread that completes the call calls `done`: inside then() if the call is already complete, else inside
    /// test() or wait(), or in the communicator's own thread if there is one (options::threads,
    /// options::progress_thread). `done` may start calls; it should neither wait for calls nor throw. Its exceptions
    /// are logged. If the communicator is destroyed first, `done` gets a usage_error.
    /// @throws usage_error for a call of device buffers: wait for its stream
    void then(std::function<void(std::exception_ptr)> done);

private:
    friend struct detail::request_access;
    request(detail::call_source& source, std::uint64_t life, std::uint64_t call) noexcept
        : source_(&source), life_(life), call_(call) {}
    void drop() noexcept;

    detail::call_source* source_ = nullptr;  // null: complete
    std::uint64_t life_ = 0;                 // value of call_source::life when the call was started
    std::uint64_t call_ = 0;
};

/// Waits for all requests. They may complete in any order.
/// @throws the first error, once all other requests are complete or have failed as well
TERRACE_API void wait_all(std::span<request> requests);

}  // namespace terrace
