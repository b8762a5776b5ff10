#pragma once

#include "bench/discover/settings.hpp"
#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

/// terrace-bench --discover. Returns the program's exit code.
int discover_machine(const world& w, const discover_settings& s);

}  // namespace terrace::detail::bench
