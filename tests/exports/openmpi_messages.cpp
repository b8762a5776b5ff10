// What openmpi_messages_test.py compares: all algorithms of Open MPI that library_algorithms has, one after another.
//     openmpi_messages rules RANKS: prints rules by which each size of a collective runs another algorithm
//     openmpi_messages expected RANKS COLLECTIVE: prints all messages of these calls, as "from to bytes count"
//     mpirun -np RANKS openmpi_messages run RANKS COLLECTIVE: calls the collective with these sizes

#include <mpi.h>

#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/index.hpp"
#include "tools/terrace/exports/library_algorithms.hpp"

namespace {

using namespace terrace::detail;

// Sizes whose halves of halves, segments and shares are whole.
std::int64_t bytes_of(int ranks, std::size_t call) { return std::int64_t{65536} * ranks * static_cast<int>(call + 1); }

library_choices choices(int ranks) {
    library_choices made;
    for (const library_algorithm& a : library_algorithms()) {
        if (a.openmpi == 0 || a.steps(ranks, 1).empty()) continue;
        std::vector<library_choice>& of = made[a.what];
        of.push_back({of.empty() ? 0 : bytes_of(ranks, of.size()), &a});
    }
    return made;
}

void print_expected(int ranks, collective what) {
    struct sum {
        double bytes = 0;
        std::int64_t messages = 0;
    };
    std::map<std::pair<int, int>, sum> sums;
    const std::vector<library_choice> all = choices(ranks).at(what);
    for (std::size_t call = 0; call < all.size(); ++call) {
        const library_algorithm& how = *all[call].how;
        const std::int64_t bytes = bytes_of(ranks, call), segments = how.segment == 0 ? 1 : bytes / how.segment;
        for (const library_step& step : how.steps(ranks, static_cast<double>(bytes / segments)))
            for (const library_message& m : step.messages) {
                sums[{m.from, m.to}].messages += step.times * segments;
                sums[{m.from, m.to}].bytes += m.bytes * static_cast<double>(step.times * segments);
            }
    }
    for (const auto& [way, s] : sums) fmt::print("{} {} {:.0f} {}\n", way.first, way.second, s.bytes, s.messages);
}

void run(int ranks, collective what) {
    for (std::size_t call = 0; call < choices(ranks).at(what).size(); ++call) {
        const int all = static_cast<int>(bytes_of(ranks, call) / 4), block = all / ranks;
        std::vector<float> in(at(all)), out(at(all));
        if (what == collective::allreduce)
            MPI_Allreduce(in.data(), out.data(), all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else if (what == collective::reduce)
            MPI_Reduce(in.data(), out.data(), all, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        else if (what == collective::broadcast) MPI_Bcast(in.data(), all, MPI_FLOAT, 0, MPI_COMM_WORLD);
        else MPI_Allgather(in.data(), block, MPI_FLOAT, out.data(), block, MPI_FLOAT, MPI_COMM_WORLD);
    }
}

}  // namespace

int main(int, char** arguments) {
    const std::string_view what = arguments[1];
    const int ranks = std::atoi(arguments[2]);
    if (what == "rules") fmt::print("{}", openmpi_rules_text(ranks, choices(ranks)));
    else if (what == "expected") print_expected(ranks, *parse_collective(arguments[3]));
    else {
        MPI_Init(nullptr, nullptr);
        run(ranks, *parse_collective(arguments[3]));
        MPI_Finalize();
    }
}
