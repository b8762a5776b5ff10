// An allreduce without MPI: ranks are processes that any launcher starts, and UCX carries their messages.
#include <cstdio>
#include <vector>

#include <terrace/ucx.hpp>

int main() {
    try {
        terrace::communicator comm = terrace::ucx::create(terrace::options::from_environment());
        std::vector<float> gradients(1000, 1.0f);
        comm.allreduce(gradients);
        if (comm.rank() == 0) std::printf("%d ranks: %g\n", comm.size(), gradients[0]);
    } catch (const terrace::error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
