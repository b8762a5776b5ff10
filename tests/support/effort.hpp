#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace terrace::detail::test {

// Number of cases that a run of the tests does. tools/test --all sets TERRACE_TEST_ALL; sanitizers make tests slower.

#if defined(__SANITIZE_THREAD__)
inline constexpr int slowness = 40;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int slowness = 20;
#else
inline constexpr int slowness = 1;
#endif

inline bool everything() { return std::getenv("TERRACE_TEST_ALL") != nullptr; }

/// Returns the number of cases to run: `all` with TERRACE_TEST_ALL, else `usual`, with sanitizers a part of `usual`.
/// Prints a line about cases that are left out, which tools/test repeats at the end.
inline int share(const std::string& what, int all, int usual) {
    const int done = everything() ? all : std::max(std::min(1, usual), usual / slowness);
    if (done < all) std::printf("left out: %d of %d %s\n", all - done, all, what.c_str());
    return done;
}

inline int share(const std::string& what, int all) { return share(what, all, all); }

/// Returns the number of cases to run: `all`, or `with_sanitizers` with sanitizers and without TERRACE_TEST_ALL.
inline int share_sanitized(const std::string& what, int all, int with_sanitizers) {
    return share(what, all, slowness > 1 ? with_sanitizers * slowness : all);
}

/// Returns TERRACE_TEST_SEED, or a fixed seed.
inline std::uint64_t seed() {
    const char* given = std::getenv("TERRACE_TEST_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

}  // namespace terrace::detail::test
