// Makes every MPI call with more than 1,048,576 elements fail, as calls with more than 2^31 - 1 elements would. Terrace
// calls MPI's functions by their names with PMPI_. An executable that links this file has definitions of these names,
// which come before those of the MPI library.

#include <algorithm>

#pragma GCC visibility push(default)  // missing in the header of the standard ABI
#include <mpi.h>
#pragma GCC visibility pop

#include "support/real_mpi.hpp"

namespace {

constexpr int limit = 1 << 20;

template <class Call>
int limited(int count, MPI_Comm comm, Call call) {
    if (count <= limit) return call();
    PMPI_Comm_call_errhandler(comm, MPI_ERR_COUNT);
    return MPI_ERR_COUNT;
}

}  // namespace

extern "C" {

int PMPI_Send(const void* data, int n, MPI_Datatype t, int to, int tag, MPI_Comm c) {
    return limited(n, c, [&] { return TERRACE_REAL_MPI(PMPI_Send)(data, n, t, to, tag, c); });
}
int PMPI_Recv(void* data, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status* s) {
    return limited(n, c, [&] { return TERRACE_REAL_MPI(PMPI_Recv)(data, n, t, from, tag, c, s); });
}
int PMPI_Isend(const void* data, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r) {
    return limited(n, c, [&] { return TERRACE_REAL_MPI(PMPI_Isend)(data, n, t, to, tag, c, r); });
}
int PMPI_Irecv(void* data, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request* r) {
    return limited(n, c, [&] { return TERRACE_REAL_MPI(PMPI_Irecv)(data, n, t, from, tag, c, r); });
}
int PMPI_Bcast(void* data, int n, MPI_Datatype t, int root, MPI_Comm c) {
    return limited(n, c, [&] { return TERRACE_REAL_MPI(PMPI_Bcast)(data, n, t, root, c); });
}
int PMPI_Allgather(const void* mine, int n, MPI_Datatype t, void* all, int each, MPI_Datatype u, MPI_Comm c) {
    return limited(std::max(n, each), c, [&] { return TERRACE_REAL_MPI(PMPI_Allgather)(mine, n, t, all, each, u, c); });
}
int PMPI_Reduce(const void* send, void* recv, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c) {
    return limited(n, c, [&] { return TERRACE_REAL_MPI(PMPI_Reduce)(send, recv, n, t, op, root, c); });
}
int PMPI_Allreduce(const void* send, void* recv, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c) {
    return limited(n, c, [&] { return TERRACE_REAL_MPI(PMPI_Allreduce)(send, recv, n, t, op, c); });
}

}  // extern "C"
