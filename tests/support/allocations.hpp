#pragma once

#include <cstddef>

namespace terrace::detail::test {

/// How often this thread has allocated by operator new, in programs that link allocations.cpp themselves.
int allocations() noexcept;
/// Bytes that it has allocated and that are not freed, less those of others that it has freed.
std::ptrdiff_t bytes_kept() noexcept;
/// From so many further allocations on this thread has no memory. Negative: it has.
void fail_after(int allocations) noexcept;

/// This thread has memory for so many allocations more, while this lives.
class memory_for {
public:
    explicit memory_for(int allocations) noexcept { fail_after(allocations); }
    memory_for(const memory_for&) = delete;
    memory_for& operator=(const memory_for&) = delete;
    ~memory_for() { fail_after(-1); }
};

}  // namespace terrace::detail::test
