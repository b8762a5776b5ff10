// terrace-smpi: the real runtime under SimGrid's MPI. Every rank of a described machine runs the plan's instructions
// over the MPI transport; only the time that messages take is SimGrid's. tools/smpi builds it and starts it.

// SMPI's macros, which no C++ library expects.
#undef exit
#undef malloc
#undef free

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <simgrid/s4u/Actor.hpp>

#include <terrace/communicator.hpp>
#include <terrace/error.hpp>
#include <terrace/export.hpp>
#include <terrace/plan.hpp>

#include "api/core.hpp"
#include "api/creation/connect.hpp"
#include "base/units.hpp"
#include "bench/measure/plans.hpp"
#include "bench/smpi/smpi_network.hpp"
#include "plan/plan_access.hpp"
#include "plan/plan_data.hpp"
#include "planner/planner.hpp"

namespace {

// Large memory of all ranks is one and the same, a small block over and over: there is nothing to see in it, no machine
// has enough of it, and what stays in the cache is soon copied and added up. SMPI_SHARED_MALLOC's block is a file on a
// disk.
bool shares_memory = true;
constexpr std::size_t large = 256 << 10, block = 512 << 10;

// What was handed out, the largest last; never unmapped.
std::vector<std::span<std::byte>>& shared() {
    static auto& all = *new std::vector<std::span<std::byte>>;
    return all;
}

void* shared_memory(std::size_t bytes) {
    static const int memory = [] {
        const int made = memfd_create("terrace-smpi", 0);
        return made >= 0 && ftruncate(made, block) == 0 ? made : -1;
    }();
    if (!shared().empty() && shared().back().size() >= bytes) return shared().back().data();
    void* all = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory < 0 || all == MAP_FAILED) return nullptr;
    for (std::size_t at = 0; at < bytes; at += block)
        if (mmap(static_cast<std::byte*>(all) + at, std::min(block, bytes - at), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED)
            return nullptr;
    return shared().emplace_back(static_cast<std::byte*>(all), bytes).data();
}

bool is_shared(const void* memory) {
    const auto* at = static_cast<const std::byte*>(memory);
    return std::any_of(shared().begin(), shared().end(),
                       [&](const auto& s) { return s.data() <= at && at < s.data() + s.size(); });
}

// What a message takes from there arrives as it is: the block is the same at both ends.
void copy_what_is_not_shared(smx_activity_t message, void* from, std::size_t bytes) {
    if (!is_shared(from))
        smpi_comm_copy_buffer_callback(reinterpret_cast<simgrid::kernel::activity::CommImpl*>(message), from, bytes);
}

}  // namespace

void* operator new[](std::size_t bytes) {
    void* made = shares_memory && bytes >= large ? shared_memory(bytes) : std::malloc(bytes);
    if (made == nullptr) throw std::bad_alloc();
    return made;
}
void operator delete[](void* memory) noexcept {
    if (!is_shared(memory)) std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept { operator delete[](memory); }

namespace terrace::detail::bench {

namespace {

struct arguments {
    std::filesystem::path plan_file;
    std::vector<std::string> algorithms;
    std::vector<std::string> sizes{"1M"};
    bool sequential = false;  // also in one piece
    bool sequential_only = false;
    std::vector<std::string> priced;  // algorithms: by the closed form alone
    bool check = false;
};

struct task {
    std::string algorithm;
    std::int64_t bytes = 0;
    bool pipelined = true;
    bool runs = true;
};

std::vector<task> tasks_of(const arguments& a) {
    std::vector<task> all;
    for (const std::string& size : a.sizes) {
        const auto bytes = parse_bytes(size, true);
        if (!bytes || *bytes < 4) throw usage_error(fmt::format("--bytes {}: not a size of 4 bytes or more", size));
        for (const bool runs : {true, false})
            for (const std::string& name : runs ? a.algorithms : a.priced) {
                if (!a.sequential_only) all.push_back({name, *bytes, true, runs});
                if (a.sequential || a.sequential_only) all.push_back({name, *bytes, false, runs});
            }
    }
    return all;
}

// All ranks are in one process, so that one of them makes what all run.
const plan& made(const arguments& a, const task& t) {
    static std::map<std::string, plan> plans;
    const auto find = [&](const std::string& key, auto make) -> const plan& {
        const auto at = plans.find(key);
        return at != plans.end() ? at->second : plans.emplace(key, make()).first->second;
    };
    constexpr collective what = collective::allreduce;
    const plan& chosen = find("", [&] { return plan::load(a.plan_file); });
    const plan& whole = find(t.algorithm, [&] { return plan_of(t.algorithm, chosen, what); });
    const std::string name = fmt::format("{}, {} B", t.algorithm, t.bytes);
    const plan& one = find(name, [&] { return rule_alone(whole, what, t.bytes); });
    return t.pipelined ? one : find(name + " in one piece", [&] { return in_one_piece(one, what); });
}

double maximum(double mine) {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return mine;
}

struct outcome {
    double time = 0;  // in the simulation [s]
    int wrong_ranks = 0;
};

// Collective.
outcome measure(const plan& p, std::int64_t bytes, bool check, int rank, int size) {
    options how;
    how.place = options::placement::anywhere;
    how.check = options::checking::off;
    how.timeout = {};
    how.shared_memory = false;
    planned all = connect(join_smpi(MPI_COMM_WORLD), p, how);
    communicator comm = make_communicator(all.by, std::move(all.net), rank, how);
    const auto memory = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(bytes / 4));
    const std::span data(memory.get(), static_cast<std::size_t>(bytes / 4));
    if (check) std::fill(data.begin(), data.end(), static_cast<float>(rank + 1));
    const double begin = maximum(MPI_Wtime()) + 1;  // all ranks at the same moment
    simgrid::s4u::this_actor::sleep_until(begin);
    comm.allreduce(data);
    outcome found{maximum(MPI_Wtime()) - begin, 0};

    const float sum = static_cast<float>(size) * static_cast<float>(size + 1) / 2;
    found.wrong_ranks = check && std::any_of(data.begin(), data.end(), [&](float f) { return f != sum; });
    MPI_Allreduce(MPI_IN_PLACE, &found.wrong_ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return found;
}

// A line of JSON.
std::string line_of(const arguments& a, const task& t, const plan_data& plan, const outcome& found, double took) {
    const rule& r = plan.choose(collective::allreduce, t.bytes);
    const double predicted = predict(plan.machine, r.stages, t.bytes, r.lanes, r.chunk, collective::allreduce).time;
    const bool cut = r.chunk > 0 && r.chunk < t.bytes;
    return fmt::format(
        "{{\"algorithm\": \"{}\", \"pipelined\": {}, \"bytes\": {}, \"ranks\": {}, \"shape\": \"{}\", \"lanes\": {}, "
        "\"chunk\": {}, \"time_s\": {}, \"closed_form_s\": {:.9g}, \"limit_s\": {:.9g}, \"wrong_ranks\": {}, "
        "\"simulated_in_s\": {:.1f}}}\n",
        t.algorithm, t.pipelined, t.bytes, plan.machine.ranks(), describe(plan.machine, r.stages), cut ? r.lanes : 1,
        cut ? r.chunk : 0, t.runs ? fmt::format("{:.9g}", found.time) : "null", predicted, limit(plan.machine, t.bytes),
        t.runs && a.check ? std::to_string(found.wrong_ranks) : "null", took);
}

int run(const arguments& a, int rank, int size) {
    int wrong_tasks = 0;
    for (const task& t : tasks_of(a)) {
        const auto started = std::chrono::steady_clock::now();
        const plan& p = made(a, t);
        const outcome found = t.runs ? measure(p, t.bytes, a.check, rank, size) : outcome{};
        wrong_tasks += found.wrong_ranks > 0;
        if (rank != 0) continue;
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
        fmt::print("{}", line_of(a, t, data_of(p), found, took.count()));
        std::fflush(stdout);
    }
    return wrong_tasks > 0 ? 1 : 0;
}

int run(int argc, char** argv, int rank, int size) {
    arguments a;
    CLI::App app("Runs an allreduce of a plan under SMPI and prints its simulated time, a line of JSON for each.",
                 "terrace-smpi");
    app.add_option("--plan", a.plan_file, "plan file")->required();
    app.add_option("--bytes", a.sizes, "comma-separated sizes")->delimiter(',');
    app.add_option("--algorithms", a.algorithms, "comma-separated: hierarchical, staged, flat-ring, two-level, central")
        ->delimiter(',');
    app.add_option("--priced", a.priced, "the same: not run, priced by the closed form alone")->delimiter(',');
    app.add_flag("--sequential", a.sequential, "also without chunks");
    app.add_flag("--sequential-only", a.sequential_only, "without chunks");
    app.add_flag("--check", a.check, "every rank with memory of its own, results checked");
    try {
        app.parse(argc, argv);
        if (a.algorithms.empty() && a.priced.empty()) a.algorithms = {"hierarchical"};
        shares_memory = !a.check;
        return run(a, rank, size);
    } catch (const CLI::ParseError& e) {
        if (rank == 0) fmt::print(stderr, "terrace-smpi: {}\n", e.what());
    } catch (const error& e) {
        if (rank == 0) fmt::print(stderr, "terrace-smpi: {}\n", e.what());
    }
    return 2;
}

}  // namespace

}  // namespace terrace::detail::bench

// smpirun looks for it in the shared object.
TERRACE_API int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    smpi_comm_set_copy_data_callback(copy_what_is_not_shared);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int status = terrace::detail::bench::run(argc, argv, rank, size);
    MPI_Finalize();
    return status;
}
