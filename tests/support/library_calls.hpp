#pragma once

namespace terrace::detail::test {

/// Numbers of nonblocking MPI collectives that this process has started.
struct library_calls {
    int reduce_scatter = 0, allgather = 0, reduce = 0, broadcast = 0;
};

library_calls& library_calls_so_far() noexcept;

}  // namespace terrace::detail::test
