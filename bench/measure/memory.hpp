#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "bench/measure/backend.hpp"

namespace terrace::detail::bench {

/// Where the buffers of calls are, and the clock that times calls on them.
class memory {
public:
    virtual ~memory() = default;

    /// Page by page: where a buffer begins is then no accident of a run.
    virtual std::shared_ptr<std::byte> allocate(std::int64_t bytes) = 0;
    /// `make` writes `bytes` bytes to memory of the host; then they are at `to`.
    virtual void put(std::byte* to, std::int64_t bytes, const std::function<void(std::byte*)>& make) = 0;
    /// What is at `from`, in memory of the host, until the next call of this or of put().
    virtual const std::byte* get(const std::byte* from, std::int64_t bytes) = 0;
    /// How long this rank's calls take, all of them [s].
    virtual double time(backend& what, std::span<const call> calls) = 0;
};

std::unique_ptr<memory> host_memory();

}  // namespace terrace::detail::bench
