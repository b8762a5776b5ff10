// Makes allreduces one after another, for tools/adapt: rank 0 prints the end and the duration of each. Every element of
// every result is compared.
//
//   mpirun -np N steady_calls SECONDS BYTES

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

namespace {

double now(auto clock) { return std::chrono::duration<double>(clock.now().time_since_epoch()).count(); }

// Element 0 of a sum is above 0 if there is another call.
int make_calls(double seconds, std::size_t count) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::options::from_environment());
    const double end = now(std::chrono::steady_clock()) + seconds;
    const int ranks = comm.size(), rank = comm.rank();
    std::vector<float> own(count), sum(count), data(count);
    for (std::size_t i = 1; i < count; ++i) {
        own[i] = static_cast<float>(rank + static_cast<int>(i % 61));
        sum[i] = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i % 61));
    }
    for (bool more = true; more;) {
        data = own;
        data[0] = rank == 0 && now(std::chrono::steady_clock()) < end ? 1 : 0;
        const double begin = now(std::chrono::steady_clock());
        comm.allreduce(std::span(data));
        const double took = now(std::chrono::steady_clock()) - begin;
        more = data[0] > 0;
        data[0] = 0;
        if (data != sum) {
            std::fprintf(stderr, "rank %d: a result is wrong\n", rank);
            return 1;
        }
        if (rank == 0) std::printf("%.3f %.6f\n", now(std::chrono::system_clock()), took);
        if (rank == 0) std::fflush(stdout);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const int status =
        make_calls(argc > 1 ? std::atof(argv[1]) : 10, (argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 4 << 20) / 4);
    MPI_Finalize();
    return status;
}
