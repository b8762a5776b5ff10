// Linked into an MPI program: the executable's definitions come before the library's, which it also has under names
// with PMPI_.

#include "support/library_calls.hpp"

#include <mpi.h>

namespace terrace::detail::test {

library_calls& library_calls_so_far() noexcept {
    static library_calls calls;
    return calls;
}

}  // namespace terrace::detail::test

using terrace::detail::test::library_calls_so_far;

extern "C" {

int MPI_Ireduce_scatter(const void* send, void* recv, const int* n, MPI_Datatype t, MPI_Op op, MPI_Comm c,
                        MPI_Request* r) {
    ++library_calls_so_far().reduce_scatter;
    return PMPI_Ireduce_scatter(send, recv, n, t, op, c, r);
}
int MPI_Iallgatherv(const void* send, int n, MPI_Datatype t, void* recv, const int* each, const int* at, MPI_Datatype u,
                    MPI_Comm c, MPI_Request* r) {
    ++library_calls_so_far().allgather;
    return PMPI_Iallgatherv(send, n, t, recv, each, at, u, c, r);
}
int MPI_Ireduce(const void* send, void* recv, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c, MPI_Request* r) {
    ++library_calls_so_far().reduce;
    return PMPI_Ireduce(send, recv, n, t, op, root, c, r);
}
int MPI_Ibcast(void* data, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r) {
    ++library_calls_so_far().broadcast;
    return PMPI_Ibcast(data, n, t, root, c, r);
}

}  // extern "C"
