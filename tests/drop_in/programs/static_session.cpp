// A static object initializes and finalizes MPI. Its destructor runs when other static objects are already destroyed.

#include <cstdio>
#include <vector>

#include <mpi.h>

namespace {

int wrong = 0;

void sum(std::size_t count) {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<double> given(count, 1), got(count);
    MPI_Allreduce(given.data(), got.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (const double value : got) wrong += value != size;
}

struct session {
    session() { MPI_Init(nullptr, nullptr); }
    ~session() {
        MPI_Comm last = MPI_COMM_NULL;
        int rank = 0;
        sum(1);
        sum(70000);  // a new shape
        MPI_Comm_dup(MPI_COMM_WORLD, &last);
        MPI_Bcast(&wrong, 1, MPI_INT, 0, last);  // too late for a new Terrace communicator
        MPI_Comm_free(&last);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0) std::printf("wrong: %d\n", wrong);
        MPI_Finalize();
    }
};
const session whole_program;

}  // namespace

int main() {
    for (int i = 0; i < 10; ++i) sum(1000);
}
