// Costs of single operations, beside MPI's own. The ways of doing one take turns, so other work on the machine affects
// all of them.
//
//   mpirun -np N costs NAME [PLAN] [NUMBER ...]

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <linux/futex.h>
#include <mpi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <terrace/mpi.hpp>

namespace terrace::detail::bench {

namespace {

struct given {
    int rank = 0, ranks = 0;
    MPI_Comm of = MPI_COMM_WORLD;           // the ranks that take part
    const char* plan = nullptr;             // file
    std::vector<std::size_t> numbers = {};  // sizes and counts
};

struct way {
    std::string name;
    std::function<void()> work;
    int in_a_row = 1;    // repetitions, so start times of ranks do not matter
    int operations = 1;  // operations in one call of `work`
};

// Returns the mean time of in_a_row calls of `work`, at the slowest rank [s]. All ranks begin together.
double time_of(const way& w, MPI_Comm of) {
    MPI_Barrier(of);
    const double start = MPI_Wtime();
    for (int i = 0; i < w.in_a_row; ++i) w.work();
    double seconds = (MPI_Wtime() - start) / w.in_a_row;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, of);
    return seconds;
}

double quantile(std::vector<double> times, double part) {
    const auto at = times.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(times.size() - 1));
    std::nth_element(times.begin(), at, times.end());
    return *at;
}

// Prints a line for each way on rank 0.
void compare(const given& g, const std::string& what, int turns, const std::vector<way>& ways) {
    std::vector<std::vector<double>> times(ways.size());
    for (int turn = 0; turn < turns; ++turn)
        for (std::size_t w = 0; w < ways.size(); ++w)
            times[w].push_back(1e6 * time_of(ways[w], g.of) / ways[w].operations);
    if (g.rank != 0) return;
    std::printf("%s, %d ranks, us: median of %d (quartiles), the slowest rank's, over the first; first call\n",
                what.c_str(), g.ranks, turns);
    const double base = quantile(times.front(), 0.5);
    for (std::size_t w = 0; w < ways.size(); ++w) {
        const double median = quantile(times[w], 0.5);
        std::printf("  %-32s %11.3f (%.3f, %.3f) %7.2f %11.1f\n", ways[w].name.c_str(), median,
                    quantile(times[w], 0.25), quantile(times[w], 0.75), median / base, times[w].front());
    }
    std::fflush(stdout);
}

// Creates a communicator by the plan, with ranks on any machine.
communicator by_plan(const given& g, options o = {}) {
    o.place = options::placement::anywhere;
    return mpi::create(MPI_COMM_WORLD, plan::load(g.plan), o);
}

std::vector<std::size_t> or_usual(const std::vector<std::size_t>& numbers, const std::vector<std::size_t>& usual) {
    return numbers.empty() ? usual : numbers;
}

// ---- the measurements ----------------------------------------------------------------------------------------------

void barrier(const given& g) {
    communicator comm = by_plan(g);
    compare(g, "barrier", 1001,
            {{"terrace", [&] { comm.barrier(); }, 10}, {"MPI_Barrier", [] { MPI_Barrier(MPI_COMM_WORLD); }, 10}});
}

// Compares allreduces over communicators that differ in their options.
void compare_options(const given& g, const std::vector<std::pair<const char*, options>>& each) {
    std::vector<communicator> comms;
    for (const auto& [name, o] : each) comms.push_back(by_plan(g, o));
    for (const std::size_t bytes : or_usual(g.numbers, {8, 4096, 65536, 1048576})) {
        std::vector<float> data(std::max<std::size_t>(bytes / sizeof(float), 1));
        std::vector<way> ways;
        for (std::size_t i = 0; i < each.size(); ++i)
            ways.push_back({each[i].first, [&data, &comm = comms[i]] { comm.allreduce(data); }});
        compare(g, "allreduce of " + std::to_string(bytes) + " bytes", 301, ways);
    }
}

void check(const given& g) {
    options off, first, every;
    off.check = options::checking::off;
    first.check = options::checking::first;
    every.check = options::checking::every;
    compare_options(g, {{"check off", off}, {"check first", first}, {"check every", every}});
}

void failures(const given& g) {
    options off, on;
    off.failure_timeout = std::chrono::seconds(0);
    on.failure_timeout = std::chrono::seconds(10);
    compare_options(g, {{"failure_timeout off", off}, {"failure_timeout 10 s", on}});
}

void group(const given& g) {
    communicator comm = by_plan(g);
    const std::vector<std::size_t> numbers = or_usual(g.numbers, {64, 1024});
    if (numbers.size() != 2) throw usage_error("give CALLS and BYTES, or neither");
    const std::size_t calls = numbers[0], count = std::max<std::size_t>(numbers[1] / sizeof(float), 1);
    std::vector<float> whole(calls * count);
    std::vector<std::vector<float>> small(calls, std::vector<float>(count));
    std::vector<request> requests;
    const auto start_all = [&] {
        for (auto& each : small) requests.push_back(comm.allreduce_async(each));
    };
    const auto wait = [&] {
        wait_all(requests);
        requests.clear();
    };
    compare(g, std::to_string(calls) + " allreduces of " + std::to_string(numbers[1]) + " bytes", 501,
            {{"one of as many bytes", [&] { comm.allreduce(whole); }},
             {"in a group",
              [&] {
                  comm.group_start();
                  start_all();
                  comm.group_end();
                  wait();
              }},
             {"without a group", [&] {
                  start_all();
                  wait();
              }}});
}

// Measures half a round trip between rank 0 and the last, and all ranks sending to the next, as nccl-tests' sendrecv.
void message(const given& g) {
    communicator comm = by_plan(g);
    const int last = g.ranks - 1, next = (g.rank + 1) % g.ranks, previous = (g.rank + last) % g.ranks;
    for (const std::size_t bytes : or_usual(g.numbers, {8, 1024, 8192, 65'536, 1 << 20, 4 << 20})) {
        std::vector<std::byte> out(bytes), in(bytes);
        const int count = static_cast<int>(bytes);
        const auto send = [&](int to) { return comm.send_async(out.data(), count, element_type::uint8, to, 0); };
        const auto recv = [&](int from) { comm.recv(in.data(), count, element_type::uint8, from, 0); };
        const auto mpi_send = [&](int to) { MPI_Send(out.data(), count, MPI_BYTE, to, 0, MPI_COMM_WORLD); };
        const auto mpi_recv = [&](int from) {
            MPI_Recv(in.data(), count, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        };
        const auto round_trip = [&](const auto& sends, const auto& receives) {
            if (g.rank == 0) sends(last);
            if (g.rank == 0 || g.rank == last) receives(g.rank == 0 ? last : 0);
            if (g.rank == last) sends(0);
        };
        compare(g, "messages of " + std::to_string(bytes) + " bytes", 201,
                {{"half a round trip", [&] { round_trip([&](int to) { send(to).wait(); }, recv); }, 10, 2},
                 {"  MPI", [&] { round_trip(mpi_send, mpi_recv); }, 10, 2},
                 {"from rank to rank",
                  [&] {
                      request sent = send(next);
                      recv(previous);
                      sent.wait();
                  },
                  10},
                 {"  MPI",
                  [&] {
                      MPI_Sendrecv(out.data(), count, MPI_BYTE, next, 0, in.data(), count, MPI_BYTE, previous, 0,
                                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                  },
                  10}});
    }
}

// Measures making a communicator. Without PLAN, a plan is made at creation, or found in TERRACE_PLAN_CACHE.
void creation(const given& g) {
    std::optional<communicator> made;
    const auto create = [&](const options& o) {
        made.emplace(g.plan == nullptr ? mpi::create(MPI_COMM_WORLD, o) : by_plan(g, o));
    };
    const options usual = options::from_environment();
    options unwatched = usual;
    unwatched.failure_timeout = std::chrono::seconds(0);
    const auto destroy = [&] { made.reset(); };
    compare(g, "a communicator", 7,
            {{"creation", [&] { create(usual); }},
             {"  end of life", destroy},
             {"creation, no failure_timeout", [&] { create(unwatched); }},
             {"  end of life", destroy},
             {"MPI_Comm_dup, MPI_Comm_free", [] {
                  MPI_Comm copy;
                  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
                  MPI_Comm_free(&copy);
              }}});
}

constexpr int hand_overs = 50;

// Runs two threads in turns. @param pass(t) wakes the other thread   @param wait(t) returns when the other has passed
void hand_over(const auto& pass, const auto& wait) {
    std::jthread other([&] {
        for (int i = 0; i < hand_overs; ++i) {
            wait(1);
            pass(1);
        }
    });
    for (int i = 0; i < hand_overs; ++i) {
        pass(0);
        wait(0);
    }
}

void hand_over_by_futex() {
    std::array<std::atomic<int>, 2> passed{};
    const auto call = [](std::atomic<int>& word, int operation, int value) {
        syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
    };
    hand_over(
        [&](std::size_t t) {
            passed[t] = 1;
            call(passed[t], FUTEX_WAKE_PRIVATE, 1);
        },
        [&](std::size_t t) {
            while (passed[1 - t].exchange(0) == 0) call(passed[1 - t], FUTEX_WAIT_PRIVATE, 0);
        });
}

void hand_over_by_messages(communicator& comm) {
    std::array<std::array<int, 1>, 2> balls{};
    hand_over([&](int t) { comm.send(balls[static_cast<std::size_t>(t)], comm.rank(), t); },
              [&](int t) { comm.recv(balls[static_cast<std::size_t>(t)], comm.rank(), 1 - t); });
}

// Compares communicators for one thread and for any number: the time of a call by a single thread, and the time in
// which one thread wakes another.
void thread(const given& g) {
    options o;
    communicator one = by_plan(g, o);
    o.threads = options::threading::any;
    communicator any = by_plan(g, o);
    std::vector<float> data(2);
    compare(g, "allreduce of 8 bytes", 301,
            {{"threads = serialized", [&] { one.allreduce(data); }, 50},
             {"threads = any, alone", [&] { any.allreduce(data); }, 50}});
    if (g.rank != 0) return;
    const given alone{.ranks = 1, .of = MPI_COMM_SELF};
    compare(alone, "one thread wakes another", 301,
            {{"by a futex alone", hand_over_by_futex, 1, 2 * hand_overs},
             {"by a message", [&] { hand_over_by_messages(any); }, 1, 2 * hand_overs}});
}

// Measures a call of one rank through the drop-in: the allreduce then waits for no other rank. Requires the loaded
// drop-in: docs/guides/drop-in.md.
void drop_in(const given& g) {
#ifdef OMPI_MAJOR_VERSION
    constexpr const char* library = "libmpi.so.40";
#else
    constexpr const char* library = "libmpich.so.12";
#endif
    using call = decltype(&MPI_Allreduce);
    // MPI's own function, even if the drop-in is loaded.
    void* const mpi = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    const auto direct = mpi != nullptr ? reinterpret_cast<call>(dlsym(mpi, "PMPI_Allreduce")) : nullptr;
    if (direct == nullptr) throw usage_error(std::string(library) + " is not loaded");
    const auto sum = [](call allreduce) {
        int mine = 1, all = 0;
        allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    };
    compare(g, "MPI_Allreduce of 4 bytes on MPI_COMM_SELF", 301,
            {{"MPI", [&] { sum(direct); }, 1000}, {"as a program calls it", [&] { sum(&MPI_Allreduce); }, 1000}});
}

struct cost {
    std::string_view name, arguments;
    void (*print)(const given&);
};

// Pages of docs/ have the figures.
constexpr std::array costs{
    cost{"check", "PLAN [BYTES ...]", check},
    cost{"failures", "PLAN [BYTES ...]", failures},
    cost{"barrier", "PLAN", barrier},
    cost{"group", "PLAN [CALLS BYTES]", group},
    cost{"message", "PLAN [BYTES ...]", message},
    cost{"thread", "PLAN", thread},
    cost{"creation", "[PLAN]", creation},
    cost{"drop-in", "", drop_in},
};

// Parses the command line; returns nothing if it does not fit this cost.
std::optional<given> read(const cost& c, int argc, char** argv) {
    given g;
    int next = 2;
    if (c.arguments.find("PLAN") != c.arguments.npos && next < argc) g.plan = argv[next++];
    if (c.arguments.starts_with("PLAN") && g.plan == nullptr) return {};
    for (; next < argc; ++next) g.numbers.push_back(std::strtoull(argv[next], nullptr, 10));
    if (!g.numbers.empty() && c.arguments.find("BYTES") == c.arguments.npos) return {};
    if (std::ranges::find(g.numbers, std::size_t{0}) != g.numbers.end()) return {};
    return g;
}

void end_all(const std::string& why, int status) {
    std::fputs(why.c_str(), stderr);
    MPI_Abort(MPI_COMM_WORLD, status);
}

}  // namespace

}  // namespace terrace::detail::bench

int main(int argc, char** argv) {
    using namespace terrace::detail::bench;
    const std::string_view name = argc > 1 ? argv[1] : "";
    int threads = 0;
    MPI_Init_thread(&argc, &argv, name == "thread" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &threads);
    const auto chosen = std::ranges::find(costs, name, &cost::name);
    std::optional<given> g = chosen != costs.end() ? read(*chosen, argc, argv) : std::nullopt;
    if (!g) {
        std::string usage = "usage:\n";
        for (const cost& c : costs)
            usage.append("  mpirun -np N costs ").append(c.name).append(" ").append(c.arguments).append("\n");
        end_all(usage, 2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &g->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &g->ranks);
    try {
        chosen->print(*g);
    } catch (const terrace::error& e) {
        end_all(terrace::mpi::error_lines(MPI_COMM_WORLD, e), 1);
    }
    MPI_Finalize();
}
