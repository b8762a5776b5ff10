#pragma once

#include <string>

#include "bench/measure/detect.hpp"
#include "bench/measure/links.hpp"
#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

inline constexpr int fine = 0;

/// ISO 8601, UTC.
std::string now_text();
/// The first rank prints. Where standard output takes no more, all ranks end.
void say(const world& w, const std::string& text);

// --links and --detect: they take MPI. Both return the program's exit code.
int measure_links(const world& w, const links_settings& s);
int describe_cluster(const world& w, const detect_settings& s);

}  // namespace terrace::detail::bench
