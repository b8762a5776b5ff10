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

namespace {

constexpr int turns = 9, warm_up = 2;

// The same rows on all ranks: what travels depends on their number alone.
struct embedding {
    embedding(terrace::communicator& comm, std::int64_t rows, std::int64_t elements, double dense_above)
        : reducer(comm, {{"words", rows * elements, terrace::element_type::float32, nullptr, elements}},
                  {.dense_above = dense_above}) {}

    // Returns the slowest rank's time [s].
    double reduce(const std::vector<std::int64_t>& rows, const std::vector<float>& values) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        reducer.ready<float>(0, rows, values);
        reducer.finish();
        double seconds = MPI_Wtime() - start;
        MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        return seconds;
    }

    terrace::gradient_reducer reducer;
};

// ms
double median(std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + turns / 2, times.end());
    return times[turns / 2] * 1e3;
}

void print_costs(const char* plan_file, std::int64_t all, std::int64_t elements) {
    constexpr double never = 1, always = 1e-12;
    terrace::options o;
    o.place = terrace::options::placement::anywhere;
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file), o);
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
                        median(times[0]), median(times[1]), median(times[2]),
                        ways[2].reducer.was_dense(0) ? "dense" : "rows");
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const auto number = [&](int i, long usual) { return std::max(argc > i ? std::atol(argv[i]) : usual, 1L); };
    if (argc != 2 && argc != 4) {
        std::fprintf(stderr, "usage: mpirun -np N sparse-cost PLAN [ROWS ELEMENTS]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    try {
        print_costs(argv[1], number(2, 65536), number(3, 32));
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
