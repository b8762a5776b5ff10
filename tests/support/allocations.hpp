#pragma once

namespace terrace::detail::test {

/// How often this thread has allocated by operator new, in programs that link allocations.cpp themselves.
int allocations() noexcept;
/// From so many further allocations on this thread has no memory. Negative: it has.
void fail_after(int allocations) noexcept;

}  // namespace terrace::detail::test
