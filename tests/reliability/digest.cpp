// Runs calls whose bits depend on the order of additions, and prints one hash of all results. Under mpirun, 4 ranks.

#include <cstdio>
#include <string>

#include <mpi.h>

#include <terrace/mpi.hpp>

#include "base/hash.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

namespace {

std::string digest_of(communicator& comm) {
    std::string all;
    for (const element_type type :
         {element_type::float16, element_type::bfloat16, element_type::float32, element_type::float64})
        for (const reduce_op op : {reduce_op::sum, reduce_op::prod})
            all += std::to_string(
                make(comm, {.type = type, .op = op, .count = 4001, .counts = {}, .data = contents::rough}, 1).digest);
    return fingerprint_of(all);
}

}  // namespace

}  // namespace terrace::detail::test

int main(int argc, char** argv) {
    using namespace terrace;
    using namespace terrace::detail;
    using namespace terrace::detail::test;
    MPI_Init(&argc, &argv);
    try {
        options anywhere;
        anywhere.place = options::placement::anywhere;
        const hierarchy machine = machine_of(tree::uniform(std::vector{4}));
        for (const char* algorithm : {"direct", "ring", "shared_memory"}) {
            communicator comm = mpi::create(
                MPI_COMM_WORLD, plan_of(machine, {run_by({{0}, 4, mode::scatter}, algorithm)}, 3, 4096), anywhere);
            std::printf("%s %s\n", algorithm, digest_of(comm).c_str());
        }
    } catch (const error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
