#pragma once

#include <terrace/export.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <terrace/types.hpp>

namespace terrace {

class communicator;

/// Memory for buffers that ranks of the same machine node can access; made by communicator::allocate, zeroed, aligned
/// to a cache line. If all buffers of an allreduce, broadcast or reduce lie in windows, the call copies nothing inside
/// the node, for vectors of 1 KiB or more. Move-only; owns its memory. Freeing a window is local. A window may outlive
/// its communicator; it must not be freed while a call on it is in flight. Is a range, so calls accept it as a buffer.
template <data_element T>
class window {
public:
    /// Makes an empty window.
    window() noexcept = default;
    window(window&& other) noexcept : memory_(std::move(other.memory_)), count_(std::exchange(other.count_, 0)) {}
    /// Frees the memory that this window had.
    window& operator=(window&& other) noexcept {
        memory_ = std::move(other.memory_);
        count_ = std::exchange(other.count_, 0);
        return *this;
    }

    /// Returns the address of the first element; null for an empty window.
    T* data() const noexcept { return reinterpret_cast<T*>(memory_.get()); }
    /// Returns the number of elements.
    std::size_t size() const noexcept { return count_; }
    T* begin() const noexcept { return data(); }
    T* end() const noexcept { return data() + count_; }
    /// Returns element i < size().
    T& operator[](std::size_t i) const noexcept { return data()[i]; }
    /// Returns all elements as a span, valid as long as the window.
    std::span<T> span() const noexcept { return {data(), count_}; }

private:
    friend class communicator;
    window(std::shared_ptr<std::byte> memory, std::size_t count) noexcept : memory_(std::move(memory)), count_(count) {}

    std::shared_ptr<std::byte> memory_;
    std::size_t count_ = 0;
};

}  // namespace terrace
