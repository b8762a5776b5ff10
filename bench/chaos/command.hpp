#pragma once

#include "bench/chaos/settings.hpp"
#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

/// terrace-bench --chaos. Returns the program's exit code. Without MPI it ends the process with that, since the bench's
/// own communicator may wait for ranks that are gone.
int make_chaos(const world& w, const chaos_settings& s);

}  // namespace terrace::detail::bench
