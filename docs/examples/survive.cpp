// Trains through failures: ranks that have failed are named, and the others go on from the last step that all have.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

#include <terrace/ucx.hpp>

// The parameters, and behind them how many steps have been made. All ranks have the same.
using training_state = std::vector<double>;

// One step of descent towards 3.
static void make_step(terrace::communicator& comm, training_state& state) {
    const std::size_t parameters = state.size() - 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // stands for computing
    std::vector<double> gradients(parameters);
    for (std::size_t i = 0; i < parameters; ++i) gradients[i] = 2 * (state[i] - 3);
    comm.allreduce(gradients, terrace::reduce_op::avg);
    for (std::size_t i = 0; i < parameters; ++i) state[i] -= 0.01 * gradients[i];
    ++state.back();
}

static void train(int steps) {
    terrace::communicator comm = terrace::ucx::create(terrace::options::from_environment());
    if (comm.rank() == 0) std::printf("%d ranks train\n", comm.size());
    std::fflush(stdout);
    training_state state(1001);
    for (bool failed = false; state.back() < steps;) {
        try {
            if (failed) {
                comm = comm.shrink();
                comm.broadcast(state, 0);  // of the ranks that are left some may be a step ahead
                failed = false;
            }
            make_step(comm, state);
        } catch (const terrace::rank_failed_error& e) {
            std::fprintf(stderr, "step %g: %s\n", state.back(), e.what());
            failed = true;
        }
    }
    if (comm.rank() == 0) std::printf("%d ranks, %g steps: %.6f\n", comm.size(), state.back(), state[0]);
}

int main(int argc, char** argv) {
    try {
        train(argc > 1 ? std::atoi(argv[1]) : 2000);
    } catch (const terrace::error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
