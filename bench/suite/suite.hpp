#pragma once

namespace terrace::detail::bench {

/// `terrace-bench --suite ...`: becomes tools/bench-suite, which starts runs of this program by itself. Before MPI is.
/// @returns only where that fails, having said why: the exit status
int become_suite(int argc, char** argv);

}  // namespace terrace::detail::bench
