// Under mpirun: ranks are processes.

#include <cstdio>

#include <mpi.h>

#include <terrace/mpi.hpp>

#include "conformance/world.hpp"

namespace terrace::detail::test {

namespace {

report run_processes(const plan& p, const rank_main& body, bool shared_memory) {
    options anywhere;
    anywhere.place = options::placement::anywhere;
    anywhere.shared_memory = shared_memory;
    std::vector<outcome> mine;
    try {
        communicator comm = mpi::create(MPI_COMM_WORLD, p, anywhere);
        mine = body(comm);
    } catch (const std::exception& e) {  // the other ranks would wait for this one
        std::fprintf(stderr, "FAILED: %s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const std::size_t ranks = static_cast<std::size_t>(p.ranks());
    std::vector<outcome> all(ranks * mine.size());
    const int bytes = static_cast<int>(mine.size() * sizeof(outcome));
    MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
    report seen;
    for (auto from = all.begin(); seen.size() < ranks; from += static_cast<std::ptrdiff_t>(mine.size()))
        seen.emplace_back(from, from + static_cast<std::ptrdiff_t>(mine.size()));
    return seen;
}

world processes(std::string name, bool shared_memory) {
    int ranks = 0, threads = MPI_THREAD_SINGLE;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Query_thread(&threads);
    return {std::move(name),
            {ranks},
            [shared_memory](const plan& p, const rank_main& body) { return run_processes(p, body, shared_memory); },
            true,
            threads == MPI_THREAD_MULTIPLE};
}

}  // namespace

std::vector<world> worlds() { return {processes("mpi", false), processes("mpi_shm", true)}; }

}  // namespace terrace::detail::test
