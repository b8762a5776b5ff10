#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "bench/measure/backend.hpp"

namespace terrace::detail::bench {

/// The memory in which the buffers of calls lie, and the clock that times calls on them.
class memory {
public:
    virtual ~memory() = default;

    /// Allocates at a page boundary, so the alignment of buffers does not vary from run to run.
    virtual std::shared_ptr<std::byte> allocate(std::int64_t bytes) = 0;
    /// Lets `make` write `bytes` bytes to host memory, then moves them to `to`.
    virtual void put(std::byte* to, std::int64_t bytes, const std::function<void(std::byte*)>& make) = 0;
    /// Returns the bytes at `from` in host memory, valid until the next call of get() or put().
    virtual const std::byte* get(const std::byte* from, std::int64_t bytes) = 0;
    /// Returns the total time of the calls on this rank [s].
    virtual double time(backend& what, std::span<const call> calls) = 0;
};

std::unique_ptr<memory> host_memory();

}  // namespace terrace::detail::bench
