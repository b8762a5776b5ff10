#pragma once

#include "bench/chaos/settings.hpp"
#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

/// terrace-bench --chaos. Does not return, since MPI and the bench's own ranks may wait for those that are gone: ends
/// the process with the program's exit code.
[[noreturn]] int make_chaos(const world& w, const chaos_settings& s);

}  // namespace terrace::detail::bench
