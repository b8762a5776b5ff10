#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <terrace/types.hpp>

namespace terrace {

/// Memory for the buffers of a communicator's calls, zeroed, on a cache line; made by communicator::allocate. Where the
/// ranks of a machine node share memory, their peers there reach it: a call both of whose buffers lie in windows (or
/// whose one buffer does, in place) copies nothing inside the node, from 1 KiB on. Move-only. Freeing it is local; it
/// may outlive the communicator, and no call may be in flight on it.
template <element T>
class window {
public:
    window() noexcept = default;
    window(window&& other) noexcept : memory_(std::move(other.memory_)), count_(std::exchange(other.count_, 0)) {}
    window& operator=(window&& other) noexcept {
        memory_ = std::move(other.memory_);
        count_ = std::exchange(other.count_, 0);
        return *this;
    }

    T* data() const noexcept { return reinterpret_cast<T*>(memory_.get()); }
    std::size_t size() const noexcept { return count_; }
    T* begin() const noexcept { return data(); }
    T* end() const noexcept { return data() + count_; }
    T& operator[](std::size_t i) const noexcept { return data()[i]; }
    std::span<T> span() const noexcept { return {data(), count_}; }

    /// For Terrace's own parts.
    window(std::shared_ptr<std::byte> memory, std::size_t count) noexcept : memory_(std::move(memory)), count_(count) {}

private:
    std::shared_ptr<std::byte> memory_;
    std::size_t count_ = 0;
};

}  // namespace terrace
