// A rank that makes random collectives while other ranks fail, and writes events.
//
// usage: survivor ucx|mpi DIRECTORY SEED [compute SECONDS [thread] | busy SECONDS | shrink | changes | cycles N |
//                                         parts]
//
// Writes DIRECTORY/PID.events (event_log.hpp), lines of NAME TIME [WORDS]:
//   ready RANK SIZE     all ranks have made a call
//   failed RANK=HOW ... rank_failed_error, by rank
//   partitioned         shrink() has thrown partitioned_error
//   destroyed, finalized   the communicator is destroyed; MPI is finalized
//   error WORDS         any other error;   wrong WORDS   a wrong result
// SIGUSR1 makes the process _exit at once. Modes (SECONDS are of processor time):
//   compute  rank 0 computes for SECONDS before its first call; with `thread`, ranks have a progress thread
//   busy     each rank computes for up to SECONDS before each call
//   shrink   ranks go on after each failure     changes  the plan changes all the time
//   cycles   Ranks 0 and 1 create N communicators, one after another. Rank 2 of each is a process that rank 0 starts,
//            and that ends. The event `kept DESCRIPTORS THREADS MAPPINGS` follows the first ones and the last.
//   parts    ranks create communicators and windows instead of making calls
// SIGNALS_A_SECOND=N sends N signals a second, and as many of a profiling timer as the kernel allows.

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <string>

#include <spawn.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <terrace/ucx.hpp>

#ifdef TERRACE_TEST_MPI
#    include <mpi.h>

#    include <terrace/mpi.hpp>
#endif

#include "api/core.hpp"
#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"
#include "support/calls.hpp"
#include "support/dice.hpp"
#include "tests/failures/event_log.hpp"

namespace terrace::detail::test {

namespace {

communicator create(const std::string& transport, const options& o) {
#ifdef TERRACE_TEST_MPI
    if (transport == "mpi") return mpi::create(MPI_COMM_WORLD, o);
#endif
    if (transport != "ucx") throw usage_error("transport " + transport + ": ucx or mpi");
    return ucx::create(o);
}

call random_call(dice& d, int ranks) {
    const auto what = d.pick(std::vector{collective::allreduce, collective::reduce_scatter, collective::allgather,
                                         collective::broadcast, collective::reduce, collective::alltoall});
    const auto count = d.pick(std::vector<std::int64_t>{1, 100, 3000, 50000});
    return {
        .what = what, .count = count, .counts = {}, .root = static_cast<int>(d.below(static_cast<std::size_t>(ranks)))};
}

// Allocates memory, which fails after the test has set RLIMIT_AS.
void use_memory() {
    constexpr std::size_t bytes = std::size_t{64} << 20;  // large enough to be mapped anew each time
    const std::unique_ptr<char[]> some(new char[bytes]);  // not initialised
    *static_cast<volatile char*>(some.get()) = 1;         // keeps the compiler from removing the allocation
}

std::string words_for(const failed_rank& f) {
    return fmt::format("{}={}", f.rank,
                       f.how == failure::died      ? "died"
                       : f.how == failure::stopped ? "stopped"
                                                   : "unreachable");
}

void compute(double seconds) {
    const std::clock_t end = std::clock() + static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC);
    while (std::clock() < end) {}
}

// Proposes a plan with the same rules under another name, or the first name again.
void change_plan(communicator& comm) {
    communicator_core& core = core_of(comm);
    const auto held = core.hold();
    plan_changes& changes = core.control().plan_change;
    if (core.net().rank() != 0 || !changes.is_idle()) return;
    plan_data next = data_of(core.planned());
    if (static bool is_first = false; (is_first = !is_first)) next.name += " again";
    changes.propose(finished(std::move(next)).text);
}

void make_calls(communicator& comm, event_log& log, std::uint64_t seed, double busy, bool changes) {
    constexpr std::size_t lengths = 16;
    dice d(seed), own(seed + static_cast<std::uint64_t>(comm.rank()));
    for (std::uint64_t n = 0;; ++n) {
        if (changes) change_plan(comm);
        compute(busy * static_cast<double>(own.below(lengths)) / lengths);
        use_memory();
        const call c = random_call(d, comm.size());
        if (make(comm, c, n).wrong > 0) log.write("wrong", describe(c));
        if (n == 0) log.write("ready", fmt::format("{} {}", comm.rank(), comm.size()));
    }
}

// Runs `work` until a rank has failed.
template <class Work>
void until_failure(event_log& log, Work work) {
    try {
        work();
    } catch (const rank_failed_error& e) {
        std::string words;
        for (const failed_rank& f : e.failed()) words += words_for(f) + " ";
        log.write("failed", words);
    }
}

// ---- cycles

options options_of_cycle(const char* directory, int cycle, int rank) {
    options o = options::from_environment();
    o.bootstrap = fmt::format("file:{}/meeting-{}", directory, cycle);
    o.rank = rank;
    o.size = 3;
    return o;
}

// Starts rank 2 of a cycle, which ends while its communicator is in use.
pid_t start_victim(char** argv, int cycle) {
    const std::string number = std::to_string(cycle);
    std::array<char*, 7> words{
        argv[0], argv[1], argv[2], argv[3], const_cast<char*>("victim"), const_cast<char*>(number.c_str()), nullptr};
    pid_t pid = 0;
    posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, words.data(), environ);
    return pid;
}

void be_victim(char** argv) {
    communicator comm = ucx::create(options_of_cycle(argv[2], std::atoi(argv[5]), 2));
    comm.barrier();
    _exit(0);
}

void run_cycles(char** argv, event_log& log) {
    const int rank = options::from_environment().rank;
    constexpr int settled = 5;  // cycles after which lasting resources exist
    for (int cycle = 0; cycle < std::atoi(argv[5]); ++cycle) {
        if (cycle == settled) log.write("kept", kept());
        const pid_t victim = rank == 0 ? start_victim(argv, cycle) : 0;
        try {
            communicator comm = ucx::create(options_of_cycle(argv[2], cycle, rank));
            while (true) comm.barrier();
        } catch (const rank_failed_error& e) {
            if (e.failed().size() != 1 || e.failed()[0].rank != 2) log.write("wrong", e.what());
        }
        if (victim > 0) waitpid(victim, nullptr, 0);
    }
    log.write("kept", kept());
}

// ---- parts

void make_parts(communicator& comm, event_log& log) {
    for (int n = 0;; ++n) {
        communicator part = comm.split(0, comm.rank()).value();
        const window<int> memory = part.allocate<int>(1000);
        std::fill(memory.begin(), memory.end(), 1);
        part.allreduce(memory.span());
        if (memory[999] != comm.size()) log.write("wrong");
        if (n == 0) log.write("ready", fmt::format("{} {}", comm.rank(), comm.size()));
    }
}

// ---- signals

void send_signals(long hertz) {
    struct sigaction ignored {};
    ignored.sa_handler = [](int) {};  // without SA_RESTART
    sigaction(SIGPROF, &ignored, nullptr);
    sigaction(SIGRTMIN, &ignored, nullptr);
    const itimerval in_processor_time{{0, 1'000'000 / hertz}, {0, 1'000'000 / hertz}};
    setitimer(ITIMER_PROF, &in_processor_time, nullptr);
    sigevent by_signal{};
    by_signal.sigev_notify = SIGEV_SIGNAL;
    by_signal.sigev_signo = SIGRTMIN;
    timer_t timer{};
    const itimerspec each{{0, 1'000'000'000 / hertz}, {0, 1'000'000'000 / hertz}};
    if (timer_create(CLOCK_MONOTONIC, &by_signal, &timer) != 0 || timer_settime(timer, 0, &each, nullptr) != 0)
        throw usage_error("no timer");
}

void run(int argc, char** argv, event_log& log) {
    const std::string mode = argc > 4 ? argv[4] : "";
    if (mode == "victim") be_victim(argv);
    if (mode == "cycles") return run_cycles(argv, log);
    options o = options::from_environment();
    o.progress_thread = argc > 6;
    if (mode == "changes") o.adapt = options::adapting::on;
    if (const char* hertz = std::getenv("SIGNALS_A_SECOND")) send_signals(std::atol(hertz));
    auto comm = std::make_unique<communicator>(create(argv[1], o));
    if (mode == "compute" && comm->rank() == 0) {
        log.write("ready", fmt::format("0 {}", comm->size()));
        compute(std::atof(argv[5]));
    }
    const std::uint64_t seed = std::strtoull(argv[3], nullptr, 10);
    until_failure(log, [&] {
        if (mode == "parts") make_parts(*comm, log);
        else make_calls(*comm, log, seed, mode == "busy" ? std::atof(argv[5]) : 0, mode == "changes");
    });
    try {
        for (std::uint64_t n = 1; mode == "shrink"; ++n) {
            *comm = comm->shrink();
            until_failure(log, [&] { make_calls(*comm, log, seed + n, 0, false); });
        }
    } catch (const partitioned_error&) {
        log.write("partitioned");
    }
    comm.reset();
    log.write("destroyed");
}

}  // namespace

}  // namespace terrace::detail::test

int main(int argc, char** argv) {
    using namespace terrace::detail::test;
    if (argc < 4) return 2;
    std::signal(SIGUSR1, [](int) { _exit(3); });
    event_log log(argv[2]);
    [[maybe_unused]] const bool over_mpi = std::string(argv[1]) == "mpi";
    try {
#ifdef TERRACE_TEST_MPI
        if (over_mpi) MPI_Init(&argc, &argv);
#endif
        run(argc, argv, log);
#ifdef TERRACE_TEST_MPI
        if (!over_mpi) return 0;
        MPI_Finalize();
        log.write("finalized");
#endif
    } catch (const std::bad_alloc&) {
        _exit(4);
    } catch (const std::exception& e) {
        log.write("error", e.what());
        _exit(1);
    }
}
