#pragma once

namespace terrace::detail {

/// Binds the calling thread to a core of those that the process may run on: the n-th from the end, counted around. Does
/// nothing where the system does not let it.
void bind_thread_to_core_from_end(int n);

}  // namespace terrace::detail
