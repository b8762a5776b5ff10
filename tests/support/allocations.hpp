#pragma once

namespace terrace::detail::test {

/// How often this thread has allocated by operator new, in programs that link allocations.cpp themselves.
int allocations() noexcept;

}  // namespace terrace::detail::test
