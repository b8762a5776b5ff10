// Helper of library_messages_test.py, which compares an MPI library's messages with those of library_algorithms.
//     library_messages rules CALLS RANKS: prints the file by which the library runs these calls
//     library_messages expected CALLS RANKS COLLECTIVE: prints all messages, as "from to bytes count"
//     mpirun ... library_messages run CALLS RANKS COLLECTIVE: calls the collective with these sizes
// CALLS: "rules" runs each size by another algorithm of Open MPI; "own" by Open MPI's own choice; "mpich" by another
// composition of MPICH. MPICH does not count messages, so its `run` prints the data that this rank passed to UCX, as
// "from bytes count", and its `expected` the same for nodes of two ranks.

#include <mpi.h>

#include <dlfcn.h>

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

// Returns a size that is whole when it is halved repeatedly, or divided into segments or shares.
std::int64_t bytes_of(int ranks, std::size_t call) { return std::int64_t{65536} * ranks * static_cast<int>(call + 1); }

// Returns rules that give each algorithm of the library a range of sizes, per collective.
library_choices choices(int ranks, int library_algorithm::*number) {
    library_choices made;
    for (const library_algorithm& a : library_algorithms()) {
        if (a.*number == 0 || a.steps(ranks, 1).empty()) continue;
        std::vector<library_choice>& of = made[a.what];
        of.push_back({of.empty() ? 0 : bytes_of(ranks, of.size()), &a});
    }
    return made;
}

int library_algorithm::*number_of(std::string_view kind) {
    return kind == "mpich" ? &library_algorithm::mpich : &library_algorithm::openmpi;
}

std::vector<library_call> calls_of(std::string_view kind, int ranks, collective what) {
    std::vector<library_call> made;
    if (kind != "own") {
        const library_choices all = choices(ranks, number_of(kind));
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

struct sum {
    double bytes = 0;
    std::int64_t messages = 0;
};

// Prints the messages of nodes of two ranks. Rank r is on node r % nodes, as MPICH deals out ranks to pretended nodes.
void print_expected_of_mpich(int ranks, const std::vector<library_call>& calls) {
    const int nodes = ranks / 2;
    std::map<int, sum> sums;
    const auto add = [&](const std::vector<library_step>& steps, int first, int stride) {
        for (const library_step& step : steps)
            for (const library_message& m : step.messages) {
                sums[first + m.from * stride].messages += step.times;
                sums[first + m.from * stride].bytes += m.bytes * step.times;
            }
    };
    for (const auto& [size, how] : calls) {
        const auto bytes = static_cast<double>(size);
        add(how->steps(how->reduce_inside == nullptr ? ranks : nodes, bytes), 0, 1);
        for (int node = 0; node < nodes; ++node)
            for (const library_steps inside : {how->what == collective::broadcast ? nullptr : how->reduce_inside,
                                               how->what == collective::reduce ? nullptr : how->broadcast_inside})
                if (inside != nullptr) add(inside(2, bytes), node, nodes);
    }
    for (const auto& [from, s] : sums) fmt::print("{} {:.0f} {}\n", from, s.bytes, s.messages);
}

void print_expected(int ranks, const std::vector<library_call>& calls) {
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

#ifdef MPICH
sum given_to_ucx;
#endif

}  // namespace

#ifdef MPICH
// Counts, and calls the function of UCX that it replaces for MPICH.
extern "C" [[gnu::visibility("default")]] void* ucp_tag_send_nbx(void* to, const void* buffer, std::size_t bytes,
                                                                 std::uint64_t tag, const void* how) {
    static const auto next = reinterpret_cast<decltype(&ucp_tag_send_nbx)>(dlsym(RTLD_NEXT, "ucp_tag_send_nbx"));
    given_to_ucx.bytes += static_cast<double>(bytes);
    ++given_to_ucx.messages;
    return next(to, buffer, bytes, tag, how);
}
#endif

int main(int, char** arguments) {
    const std::string_view what = arguments[1], kind = arguments[2];
    const int ranks = std::atoi(arguments[3]);
    if (what == "rules") {
        const library_choices made = choices(ranks, number_of(kind));
        fmt::print("{}", kind == "mpich" ? mpich_compositions_text(ranks, made) : openmpi_rules_text(ranks, made));
        return 0;
    }
    const collective of = *parse_collective(arguments[4]);
    const std::vector<library_call> calls = calls_of(kind, ranks, of);
    if (what == "expected") {
        (kind == "mpich" ? print_expected_of_mpich : print_expected)(ranks, calls);
        return 0;
    }
    MPI_Init(nullptr, nullptr);
#ifdef MPICH
    given_to_ucx = {};
    run(of, ranks, calls);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (given_to_ucx.messages > 0) fmt::print("{} {:.0f} {}\n", rank, given_to_ucx.bytes, given_to_ucx.messages);
#else
    run(of, ranks, calls);
#endif
    MPI_Finalize();
}
