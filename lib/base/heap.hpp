#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include <terrace/error.hpp>

#include "base/partition.hpp"

namespace terrace::detail {

struct freeing {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
/// Heap memory, aligned to a cache line.
using heap_memory = std::unique_ptr<std::byte[], freeing>;

/// Returns memory that is not cleared; null if the system has none.
inline heap_memory find_memory(std::size_t bytes) noexcept {
    constexpr std::size_t line = 64;
    return heap_memory(static_cast<std::byte*>(std::aligned_alloc(line, round_up(bytes, line))));
}

/// Does the same, but throws if there is no memory. @param use purpose, for the message   @throws memory_error
inline heap_memory take_memory(std::size_t bytes, const std::string& use) {
    heap_memory made = find_memory(bytes);
    if (made == nullptr) throw memory_error(bytes, use);
    return made;
}

}  // namespace terrace::detail
