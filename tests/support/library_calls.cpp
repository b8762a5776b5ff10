// Counts calls of MPI in a program that links this file. Terrace calls MPI's functions by their names with PMPI_, and
// the executable's definitions of these names come before the MPI library's.

#include "support/library_calls.hpp"

#pragma GCC visibility push(default)  // missing in the header of the standard ABI
#include <mpi.h>
#pragma GCC visibility pop

#include "support/real_mpi.hpp"

namespace terrace::detail::test {

library_calls& library_calls_so_far() noexcept {
    static library_calls calls;
    return calls;
}

}  // namespace terrace::detail::test

using terrace::detail::test::library_calls_so_far;

extern "C" {

int PMPI_Ireduce_scatter(const void* send, void* recv, const int* n, MPI_Datatype t, MPI_Op op, MPI_Comm c,
                         MPI_Request* r) {
    ++library_calls_so_far().reduce_scatter;
    return TERRACE_REAL_MPI(PMPI_Ireduce_scatter)(send, recv, n, t, op, c, r);
}
int PMPI_Iallgatherv(const void* send, int n, MPI_Datatype t, void* recv, const int* each, const int* at,
                     MPI_Datatype u, MPI_Comm c, MPI_Request* r) {
    ++library_calls_so_far().allgather;
    return TERRACE_REAL_MPI(PMPI_Iallgatherv)(send, n, t, recv, each, at, u, c, r);
}
int PMPI_Ireduce(const void* send, void* recv, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c, MPI_Request* r) {
    ++library_calls_so_far().reduce;
    return TERRACE_REAL_MPI(PMPI_Ireduce)(send, recv, n, t, op, root, c, r);
}
int PMPI_Ibcast(void* data, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r) {
    ++library_calls_so_far().broadcast;
    return TERRACE_REAL_MPI(PMPI_Ibcast)(data, n, t, root, c, r);
}

}  // extern "C"
