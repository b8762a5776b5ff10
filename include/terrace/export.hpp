#pragma once

#if __cplusplus < 202002L
#    error "Terrace needs C++20: compile with -std=c++20 or a later standard"
#endif

/// Marks the symbols that the shared library exports; all others are hidden.
#define TERRACE_API [[gnu::visibility("default")]]
