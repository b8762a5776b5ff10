// Replaces operator new and delete by functions that count. They are in a separate file, since GCC would warn of a
// mismatch of malloc and delete if it could inline them.

#include "support/allocations.hpp"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {

thread_local int count = 0, left = -1;  // successful allocations left; negative: no limit
thread_local std::ptrdiff_t kept = 0;   // bytes

void* allocate(std::size_t bytes) noexcept {
    ++count;
    if (left == 0) return nullptr;
    if (left > 0) --left;
    void* memory = std::malloc(bytes > 0 ? bytes : 1);
    kept += static_cast<std::ptrdiff_t>(::malloc_usable_size(memory));
    return memory;
}

void release(void* memory) noexcept {
    kept -= static_cast<std::ptrdiff_t>(::malloc_usable_size(memory));
    std::free(memory);
}

}  // namespace

namespace terrace::detail::test {

int allocations() noexcept { return count; }
std::ptrdiff_t bytes_kept() noexcept { return kept; }
void fail_after(int allocations) noexcept { left = allocations; }

}  // namespace terrace::detail::test

void* operator new(std::size_t bytes) {
    if (void* memory = allocate(bytes)) return memory;
    throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
