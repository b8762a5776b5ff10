#pragma once

namespace terrace::detail {

/// Binds the calling thread to one of the cores that the process may run on: the n-th from the end (0: the last),
/// modulo their number. Does nothing if the system does not allow this, or if the process may use no whole core.
void bind_thread_to_core_from_end(int n);

}  // namespace terrace::detail
