// Trains while members fail, leave and join.
//
// usage: elastic STEPS FOUNDERS    for a process that the job begins with
//        elastic STEPS join        for one that comes later
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <terrace/elastic.hpp>
#include <terrace/gradients.hpp>

static void train(terrace::elastic job, std::uint64_t steps) {
    std::vector<double> weights(1000);
    std::optional<terrace::gradient_reducer> reducer;

    job.on_change([&](terrace::communicator& comm) {
        comm.broadcast(weights, 0);  // who has joined has none yet
        if (reducer) reducer->move_to(job);
        else
            reducer.emplace(comm, std::vector<terrace::gradient_parameter>{
                                      {.name = "weights", .count = 1000, .type = terrace::element_type::float64}});
        if (comm.rank() == 0) std::printf("step %g: %d members\n", double(job.iterations()), comm.size());
        std::fflush(stdout);
    });

    while (job.iterations() < steps) {
        const bool counts = job.iterate([&](terrace::communicator&) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));  // stands for computing
            const auto gradient = reducer->gradient<double>(0);
            for (std::size_t i = 0; i < weights.size(); ++i) gradient[i] = 2 * (weights[i] - 3);
            reducer->ready(0);
            reducer->finish();
        });
        if (!counts) continue;  // a member has failed: the same step again, without it
        const auto gradient = reducer->gradient<double>(0);
        for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.01 * gradient[i];
    }
    if (job.comm().rank() == 0)
        std::printf("%d members, %g steps: %.6f\n", job.comm().size(), double(job.iterations()), weights[0]);
}

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    try {
        const terrace::options o = terrace::options::from_environment();
        const bool joins = argv[2] == std::string("join");
        train(joins ? terrace::elastic::join(o) : terrace::elastic::begin(std::atoi(argv[2]), o),
              std::strtoull(argv[1], nullptr, 10));
    } catch (const terrace::error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
