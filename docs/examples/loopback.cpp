// Tries a plan without MPI: its ranks are threads of this process. TERRACE_LOG=info says what runs.
#include <cstdio>
#include <vector>

#include <terrace/loopback.hpp>

int main(int argc, char** argv) {
    const terrace::plan plan = terrace::plan::load(argc > 1 ? argv[1] : "plan.yaml");
    const auto body = [](terrace::communicator& comm) {
        std::vector<float> gradients(1000, 1.0f);
        comm.allreduce(std::span(gradients));
        if (comm.rank() == 0) std::printf("%d ranks: %g by %s\n", comm.size(), gradients[0], comm.shape(4000).c_str());
    };
    terrace::loopback::run(plan, body, terrace::options::from_environment());
}
