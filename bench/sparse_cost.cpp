// What a sparse gradient costs as rows and as a dense gradient, over the part of its rows that each rank has, and which
// of the two a gradient_reducer takes: medians by turns.
//
//   mpirun -np N sparse-cost PLAN [ROWS ELEMENTS]

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>

#include <terrace/gradients.hpp>
#include <terrace/mpi.hpp>

#include "bench/cost_program.hpp"

namespace {

using namespace terrace::detail::bench;

constexpr int turns = 9, warm_up = 2;

// The same rows on all ranks: what travels depends on their number alone.
struct embedding {
    embedding(terrace::communicator& comm, std::int64_t rows, std::int64_t elements, double dense_above)
        : reducer(comm, {{"words", rows * elements, terrace::element_type::float32, nullptr, elements}},
                  {.dense_above = dense_above}) {}

    // Returns the slowest rank's time [s].
    double reduce(const std::vector<std::int64_t>& rows, const std::vector<float>& values) {
        return time_of([&] {
            reducer.ready<float>(0, rows, values);
            reducer.finish();
        });
    }

    terrace::gradient_reducer reducer;
};

void print_costs(const char* plan_file, std::int64_t all, std::int64_t elements) {
    constexpr double never = 1, always = 1e-12;
    terrace::communicator comm = on_any_machine(plan_file);
    std::array<embedding, 3> ways{embedding(comm, all, elements, never), embedding(comm, all, elements, always),
                                  embedding(comm, all, elements, 0)};
    if (comm.rank() == 0)
        std::printf(
            "%lld rows of %lld floats, %d ranks, ms: median of %d, the slowest rank's\n"
            "%10s %9s %9s %9s  takes\n",
            static_cast<long long>(all), static_cast<long long>(elements), comm.size(), turns, "part", "rows", "dense",
            "predicted");
    for (std::int64_t in_use = std::max<std::int64_t>(all / 64, 1); in_use < all; in_use *= 2) {
        std::vector<std::int64_t> rows(static_cast<std::size_t>(in_use));
        for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<std::int64_t>(r);
        const std::vector<float> values(rows.size() * static_cast<std::size_t>(elements), 1);
        std::array<std::vector<double>, 3> times;
        for (int turn = 0; turn < warm_up + turns; ++turn)
            for (std::size_t w = 0; w < ways.size(); ++w) {
                const double seconds = ways[w].reduce(rows, values);
                if (turn >= warm_up) times[w].push_back(seconds);
            }
        if (comm.rank() == 0)
            std::printf("%10.4f %9.2f %9.2f %9.2f  %s\n", static_cast<double>(in_use) / static_cast<double>(all),
                        median(times[0]) * 1e3, median(times[1]) * 1e3, median(times[2]) * 1e3,
                        ways[2].reducer.was_dense(0) ? "dense" : "rows");
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const auto number = [&](int i, long usual) { return std::max(argc > i ? std::atol(argv[i]) : usual, 1L); };
    return run_cost_program(argc == 2 || argc == 4, "sparse-cost PLAN [ROWS ELEMENTS]",
                            [&] { print_costs(argv[1], number(2, 65536), number(3, 32)); });
}
