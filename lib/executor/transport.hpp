#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "schedule/lower.hpp"

namespace terrace {

/// What a library below reported.
struct transport_fault {
    std::string library, call;
    int code = 0;
    std::string message;
};

/// What the executor asks of a network, or of whatever stands in for one. One per communicator, used by one thread at a
/// time. Ranks are the plan's: 0 ... size - 1 in the order of the hierarchy. Messages between two ranks with one tag
/// arrive in the order sent. Nothing on the data path throws: the first failure is latched.
class transport {
public:
    virtual ~transport() = default;

    virtual int rank() const noexcept = 0;
    virtual int size() const noexcept = 0;
    virtual std::string_view name() const noexcept = 0;
    virtual capabilities can() const noexcept { return {}; }
    /// Messages longer than this [bytes] are cut into pieces of about equal length, since they would travel slower.
    virtual std::size_t segment() const noexcept = 0;

    /// Makes room for requests in slots 0 ... count - 1 in all. Set-up.
    virtual void reserve(int slots) = 0;
    /// Starts a message in a free slot. The memory must stay as it is until the slot is reported done.
    virtual void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept = 0;
    virtual void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept = 0;
    /// Moves messages along and returns the slots that have completed, at most once each; valid until the next call.
    virtual std::span<const int> poll() noexcept = 0;
    /// The first failure, if any. After it nothing is guaranteed to complete.
    virtual const std::optional<transport_fault>& fault() const noexcept = 0;

    /// Set-up: everybody's `bytes` bytes at `mine`, by rank, to `all`. Collective. @throws transport_error
    virtual void gather_all(const void* mine, void* all, std::size_t bytes) = 0;
};

}  // namespace terrace
