// What library_messages_test.py compares: calls of an MPI library, and the messages that library_algorithms has.
//     library_messages rules CALLS RANKS: prints rules by which Open MPI runs these calls
//     library_messages expected CALLS RANKS COLLECTIVE: prints all messages, as "from to bytes count"
//     mpirun ... library_messages run CALLS RANKS COLLECTIVE: calls the collective with these sizes
// CALLS: "rules", each size by another algorithm of Open MPI; "own", what that chooses by itself.

#include <mpi.h>

#include <algorithm>
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

struct library_call {
    std::int64_t bytes;
    const library_algorithm* how;
};

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

std::vector<library_call> calls_of(std::string_view kind, int ranks, collective what) {
    std::vector<library_call> made;
    if (kind == "rules") {
        const library_choices all = choices(ranks);
        for (const library_choice& one : all.at(what)) made.push_back({bytes_of(ranks, made.size()), one.how});
        return made;
    }
    const std::int64_t unit = std::int64_t{32} * ranks;
    for (std::int64_t size = 512; size <= 1 << 21; size *= 2) {
        const std::int64_t bytes = (size + unit - 1) / unit * unit;
        const library_algorithm* how = openmpi_choice(what, ranks, static_cast<double>(bytes));
        if (how != nullptr && !how->steps(ranks, static_cast<double>(bytes)).empty()) made.push_back({bytes, how});
    }
    return made;
}

void print_expected(int ranks, const std::vector<library_call>& calls) {
    struct sum {
        double bytes = 0;
        std::int64_t messages = 0;
    };
    std::map<std::pair<int, int>, sum> sums;
    for (const auto& [bytes, how] : calls) {
        const std::int64_t segments = how->segment == 0 ? 1 : bytes / how->segment;
        for (const library_step& step : how->steps(ranks, static_cast<double>(bytes / segments)))
            for (const library_message& m : step.messages) {
                sums[{m.from, m.to}].messages += step.times * segments;
                sums[{m.from, m.to}].bytes += m.bytes * static_cast<double>(step.times * segments);
            }
    }
    for (const auto& [way, s] : sums) fmt::print("{} {} {:.0f} {}\n", way.first, way.second, s.bytes, s.messages);
}

void run(collective what, int ranks, const std::vector<library_call>& calls) {
    for (const library_call& call : calls) {
        const int all = static_cast<int>(call.bytes / 4), block = all / ranks;
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
    const std::string_view what = arguments[1], kind = arguments[2];
    const int ranks = std::atoi(arguments[3]);
    if (what == "rules") {
        fmt::print("{}", openmpi_rules_text(ranks, choices(ranks)));
        return 0;
    }
    const collective of = *parse_collective(arguments[4]);
    const std::vector<library_call> calls = calls_of(kind, ranks, of);
    if (what == "expected") {
        print_expected(ranks, calls);
        return 0;
    }
    MPI_Init(nullptr, nullptr);
    run(of, ranks, calls);
    MPI_Finalize();
}
