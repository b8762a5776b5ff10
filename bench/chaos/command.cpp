#include "bench/modes.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <span>
#include <thread>

#include <unistd.h>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/ucx.hpp>

#include "bench/measure/backend.hpp"
#include "bench/measure/exact.hpp"
#include "bench/measure/mpi_backend.hpp"
#include "plan/plan_access.hpp"
#include "schedule/compose.hpp"

namespace terrace::detail::bench {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::int64_t longest = std::int64_t{1} << 20;  // [elements]

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

// The next failure: its rank, its kind and its time. The same on all ranks.
struct blow {
    int victim = 0;
    bool exits = false;  // false: it is killed
    std::chrono::milliseconds after{};
};

blow next_blow(std::mt19937_64& dice, int ranks) {
    constexpr int longest_wait = 300;
    return {.victim = static_cast<int>(dice() % static_cast<std::uint64_t>(ranks)),
            .exits = dice() % 2 == 0,
            .after = std::chrono::milliseconds(dice() % longest_wait)};
}

void strike(const blow& b) {
    std::thread([b] {
        std::this_thread::sleep_for(b.after);
        if (b.exits) ::_exit(something_wrong);
        ::kill(::getpid(), SIGKILL);
    }).detach();
}

// Returns true if the sum is right.
bool sum(communicator& comm, std::int64_t count) {
    const exact_data data(element_type::float32, reduce_op::sum, comm.rank(), comm.size());
    std::vector<float> values(static_cast<std::size_t>(count));
    auto* bytes = reinterpret_cast<std::byte*>(values.data());
    data.fill(bytes, count);
    comm.allreduce(std::span(values));
    return data.wrong_results(bytes, 0, count) == 0;
}

struct outcome {
    bool named = false, right = true;
    double until_error = 0, until_result = 0;  // [s], since this rank's last result; since the error
};

// Makes calls until one fails, then continues without the failed rank.
outcome survive(communicator& comm, const blow& b, std::mt19937_64 dice) {
    outcome o;
    auto last = clock::now();
    try {
        while (true) {
            o.right = sum(comm, 1 + static_cast<std::int64_t>(dice() % longest)) && o.right;
            last = clock::now();
        }
    } catch (const rank_failed_error& e) {
        o.named = e.failed().size() == 1 && e.failed().front().rank == b.victim;
    }
    o.until_error = seconds_since(last);
    const auto failed = clock::now();
    comm = comm.shrink();
    o.right = sum(comm, longest) && o.right;
    o.until_result = seconds_since(failed);
    return o;
}

// Combines the outcomes of the remaining ranks.
outcome of_all(communicator& comm, const outcome& mine) {
    std::array<std::int32_t, 2> all{mine.named, mine.right};
    comm.allreduce(std::span(all), reduce_op::min);
    std::array<double, 2> times{mine.until_error, mine.until_result};
    comm.allreduce(std::span(times), reduce_op::max);
    return {.named = all[0] != 0, .right = all[1] != 0, .until_error = times[0], .until_result = times[1]};
}

void print(const communicator& comm, const std::string& line) {
    if (comm.rank() != 0) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);
}

int endure(communicator comm, const chaos_settings& s) {
    std::mt19937_64 dice(s.seed);
    print(comm, fmt::format("terrace-bench --chaos: {} ranks, sums of up to 4 MiB, over {}\n"
                            "{:>5} {:>6} {:>8} {:>7} {:>7} {:>14} {:>16}",
                            comm.size(), s.ucx ? "UCX" : "MPI", "rank", "of", "is", "named", "result", "error after",
                            "right again in"));
    int code = success;
    for (int n = 0; n < s.failures && comm.size() > 1; ++n) {
        const int ranks = comm.size();
        const blow b = next_blow(dice, ranks);
        const std::uint64_t calls = dice();
        if (comm.rank() == b.victim) strike(b);
        const outcome o = of_all(comm, survive(comm, b, std::mt19937_64(calls)));
        if (!o.named || !o.right) code = something_wrong;
        print(comm, fmt::format("{:>5} {:>6} {:>8} {:>7} {:>7} {:>12.3f} s {:>14.3f} s", b.victim, ranks,
                                b.exits ? "ended" : "killed", o.named ? "by all" : "WRONG", o.right ? "right" : "WRONG",
                                o.until_error, o.until_result));
    }
    print(comm, "done; if the launcher does not end, interrupt it");
    return code;
}

}  // namespace

int make_chaos(const world& w, const chaos_settings& s) {
    int code = success;
    try {
        if (!w.has_mpi() && !s.ucx) throw usage_error("ranks without MPI take --transport ucx");
        const plan p = plan::load(s.plan_file);
        check_runnable(data_of(p));
        options how = options::from_environment();
        how.place = s.place;
        const setting in{w, p, how, {}, s.ucx, false, nullptr, false, false};
        code = endure(s.ucx ? ucx::create(p, how) : create_over_mpi(in, p), s);
    } catch (const std::exception& e) {
        fmt::print(stderr, "terrace-bench: {}\n", e.what());
        code = something_wrong;
    }
    std::fflush(stdout);
    if (!w.has_mpi()) ::_exit(code);
    return code;
}

}  // namespace terrace::detail::bench
