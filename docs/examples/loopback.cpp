// Tries a plan without MPI: its ranks are threads of this process. TERRACE_LOG=info says what runs.
#include <cstdio>
#include <vector>

#include <terrace/loopback.hpp>

static void try_plan(const char* plan_file) {
    const auto body = [](terrace::communicator& comm) {
        std::vector<float> gradients(1000, 1.0f);
        comm.allreduce(gradients);
        if (comm.rank() == 0) std::printf("%d ranks: %g by %s\n", comm.size(), gradients[0], comm.shape(4000).c_str());
    };
    terrace::loopback::run(terrace::plan::load(plan_file), body, terrace::options::from_environment());
}

int main(int argc, char** argv) {
    try {
        try_plan(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fprintf(stderr, "terrace: %s\n", e.what());
        return 1;
    }
}
