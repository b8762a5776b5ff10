#pragma once

#include <cstddef>

namespace terrace::detail::test {

/// Returns the number of this thread's allocations by operator new. For programs that link allocations.cpp.
int allocations() noexcept;
/// Returns the bytes that this thread has allocated, less the bytes that it has freed, also of other threads.
std::ptrdiff_t bytes_kept() noexcept;
/// Lets this thread's allocations fail after `allocations` more. Negative: none fails.
void fail_after(int allocations) noexcept;

/// Limits this thread to `allocations` more allocations during the object's lifetime.
class memory_for {
public:
    explicit memory_for(int allocations) noexcept { fail_after(allocations); }
    memory_for(const memory_for&) = delete;
    memory_for& operator=(const memory_for&) = delete;
    ~memory_for() { fail_after(-1); }
};

}  // namespace terrace::detail::test
