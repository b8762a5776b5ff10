// Calls in flight: many at once, waited for in any order, and what a rank says when one does not end.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <terrace/loopback.hpp>

#include "plan/plan_access.hpp"
#include "support/allocations.hpp"
#include "support/bad_calls.hpp"
#include "support/dice.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::async_test {

namespace {

std::vector<plan> plans() {
    std::vector<plan> all;
    for (const hierarchy& machine :
         {machine_of(tree({{4, 2, 3}, {3}})), machine_of(tree::uniform(std::vector{2, 2, 2}))})
        for (const char* inner : {"ring", "shared_memory"}) {
            std::vector<stage> stages{run_by({{0}, machine.shape.uniform_size(0).value_or(0), mode::scatter}, inner)};
            for (int l = 1; l < machine.depth(); ++l)
                stages.push_back({{l}, machine.shape.uniform_size(l).value_or(0), mode::scatter, "ring"});
            all.push_back(plan_of(machine, stages, 2, 8192));
        }
    return all;
}

// A file of its own for each test, gone in the end.
class temporary {
public:
    explicit temporary(const std::string& name)
        : path_(std::filesystem::temp_directory_path() / fmt::format("terrace-{}-{}", getpid(), name)) {}
    ~temporary() {
        for (const auto& each : std::filesystem::directory_iterator(path_.parent_path()))
            if (each.path().filename().string().starts_with(path_.filename().string()))
                std::filesystem::remove(each.path());
    }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

nlohmann::json read(const std::filesystem::path& file) { return nlohmann::json::parse(std::ifstream(file)); }

// More than may run at once, of shapes that repeat; ranks wait for them in orders of their own.
void run_many(bool progress_thread) {
    options o;
    o.progress_thread = progress_thread;
    for (const plan& p : plans()) {
        std::atomic<int> wrong{0};
        const auto rank_main = [&](communicator& comm) {
            constexpr int calls = 40;
            std::vector<std::vector<double>> data;
            std::vector<request> requests;
            for (int c = 0; c < calls; ++c) {
                data.emplace_back(static_cast<std::size_t>(1 + 700 * (c % 5)), comm.rank() + c);
                requests.push_back(comm.allreduce_async(std::span(data.back())));
            }
            dice order(static_cast<std::uint64_t>(comm.rank()));
            std::vector<int> left(calls);
            for (int c = 0; c < calls; ++c) left[static_cast<std::size_t>(c)] = c;
            while (!left.empty()) {
                const auto at = static_cast<std::ptrdiff_t>(order.below(left.size()));
                const int c = left[static_cast<std::size_t>(at)];
                left.erase(left.begin() + at);
                if (c % 3 != 0) requests[static_cast<std::size_t>(c)].wait();
                else
                    while (!requests[static_cast<std::size_t>(c)].test()) std::this_thread::yield();
                const int n = comm.size();
                for (double x : data[static_cast<std::size_t>(c)]) wrong += x != n * (n - 1) / 2 + n * c;
            }
        };
        loopback::run(p, rank_main, o);
        EXPECT_EQ(wrong, 0) << data_of(p).text;
    }
}

}  // namespace

TEST(async, many_in_flight_complete_in_any_order) { run_many(false); }

TEST(progress_thread, completes_many_in_any_order) { run_many(true); }

// While rank 0 does something else: the others need it.
TEST(progress_thread, moves_calls_along) {
    options o;
    o.progress_thread = true;
    for (const plan& p : plans()) {
        std::atomic<int> through{0};
        loopback::run(
            p,
            [&](communicator& comm) {
                std::vector<int> data(20'000, 1);
                request r = comm.allreduce_async(std::span(data));
                if (comm.rank() == 0) {
                    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
                    while (through < comm.size() - 1 && std::chrono::steady_clock::now() < until)
                        std::this_thread::yield();
                    EXPECT_EQ(through, comm.size() - 1);
                }
                r.wait();
                ++through;
                EXPECT_EQ(std::count(data.begin(), data.end(), comm.size()), 20'000);
                const window<int> made = comm.allocate<int>(100);
                EXPECT_TRUE(comm.split(comm.rank() % 2).has_value());
            },
            o);
    }
}

TEST(progress_thread, ends_calls_at_their_deadline) {
    options o;
    o.progress_thread = true;
    o.check = options::checking::off;
    o.timeout = std::chrono::milliseconds(100);
    std::atomic<int> told{0}, left{0};
    loopback::run(
        plan_for(3),
        [&](communicator& comm) {
            std::vector<float> data(1000, 1);
            comm.allreduce(std::span(data));
            if (comm.rank() != 1) {
                try {
                    comm.allreduce(std::span(data));
                } catch (const timeout_error&) {
                    ++told;
                }
            }
            for (++left; left < 3;) std::this_thread::yield();  // rank 1 stays so long
        },
        o);
    EXPECT_EQ(told, 2);
}

TEST(set_timeout, is_for_calls_in_flight_too) {
    std::atomic<int> told{0}, left{0};
    loopback::run(plan_for(3), [&](communicator& comm) {
        std::vector<float> data(1000, 1);
        EXPECT_THROW(comm.set_timeout(std::chrono::seconds(-1)), usage_error);
        if (comm.rank() != 1) {
            request call = comm.allreduce_async(std::span(data));
            comm.set_timeout(std::chrono::milliseconds(100));
            try {
                call.wait();
            } catch (const timeout_error& e) {
                told += std::string(e.what()).starts_with("timed out after 0.1 s") ? 1 : 0;
            }
        }
        for (++left; left < 3;) std::this_thread::yield();  // rank 1 stays so long
    });
    EXPECT_EQ(told, 2);
}

TEST(async, all_collectives) {
    loopback::run(plan_for(6), [&](communicator& comm) {
        const int n = comm.size(), me = comm.rank();
        const auto many = static_cast<std::size_t>(n);
        std::vector<int> ones(3 * many, 1), sums(3), mine(2, me), all(2 * many);
        std::vector<int> told(5, me == 2 ? 42 : 0), total(3 * many);
        std::vector<request> requests;
        requests.push_back(comm.reduce_scatter_async(ones, sums));
        requests.push_back(comm.allgather_async(mine, all));
        requests.push_back(comm.broadcast_async(told, 2));
        requests.push_back(comm.reduce_async(ones, total, 1));
        std::vector<int> asked(2 * many, me), answered(2 * many);
        requests.push_back(comm.alltoall_async(asked, answered));
        std::vector<int> gathered(me == 3 ? 2 * many : 0), dealt(2), deal(me == 1 ? 2 * many : 0, 9);
        requests.push_back(comm.gather_async(mine, gathered, 3));
        requests.push_back(comm.scatter_async(deal, dealt, 1));
        wait_all(requests);
        EXPECT_EQ(sums, std::vector<int>(3, n));
        for (int r = 0; r < n; ++r) EXPECT_EQ(all[static_cast<std::size_t>(2 * r)], r);
        EXPECT_EQ(answered, all);
        EXPECT_EQ(gathered, me == 3 ? all : std::vector<int>{});
        EXPECT_EQ(dealt, std::vector<int>(2, 9));
        EXPECT_EQ(told, std::vector<int>(5, 42));
        if (me == 1) {
            EXPECT_EQ(total, std::vector<int>(ones.size(), n));
        }
    });
}

// One rank compares a new shape while another still waits for the call before it.
TEST(async, comparing_calls_moves_others_along) {
    loopback::run(plan_for(3), [&](communicator& comm) {
        std::vector<float> first(50'000, 1), second(60'000, 1);
        request r = comm.allreduce_async(std::span(first));
        if (comm.rank() == 0) r.wait();
        request s = comm.allreduce_async(std::span(second));
        s.wait();
        r.wait();
        EXPECT_EQ(first.back() + second.back(), 6);
    });
}

TEST(async, a_request_is_complete_when_it_is_moved_from_or_waited_for) {
    loopback::run(plan_for(2), [&](communicator& comm) {
        request none;
        EXPECT_TRUE(none.test());
        none.wait();
        std::vector<float> data(100, 1);
        request first = comm.allreduce_async(std::span(data));
        request second = std::move(first);
        EXPECT_TRUE(first.test());  // NOLINT: that is what is tested
        second.wait();
        EXPECT_TRUE(second.test());
        EXPECT_EQ(data.front(), 2);
        { request dropped = comm.allreduce_async(std::span(data)); }
        EXPECT_EQ(data.front(), 4);
    });
}

TEST(async, a_request_that_outlives_its_communicator_says_so) {
    loopback::run(plan_for(2), [&](communicator& comm) {
        std::vector<float> data(100'000, 1);
        request waits, tests, dropped;
        {
            communicator part = *comm.split(0);
            waits = part.allreduce_async(std::span(data).first(1000));
            tests = part.allreduce_async(std::span(data).subspan(1000, 1000));
            dropped = part.allreduce_async(std::span(data).subspan(2000));
        }
        EXPECT_THROW(waits.wait(), usage_error);
        EXPECT_THROW(tests.test(), usage_error);
        EXPECT_TRUE(waits.test() && tests.test());
    });
}

TEST(async, a_second_call_allocates_nothing) {
    std::atomic<int> total{0};
    for (const plan& p : plans())
        loopback::run(p, [&](communicator& comm) {
            std::vector<float> data(5000, 1);
            for (int i = 0; i < 3; ++i) {
                const int before = allocations();
                comm.allreduce(std::span(data));
                if (i == 2) total += allocations() - before;
            }
        });
    EXPECT_EQ(total, 0);
}

namespace {

// In a call, or while calls are compared: whoever waits does the same.
void miss_a_rank(options::checking level, const std::string& where) {
    const temporary file("dump");
    options o;
    o.timeout = std::chrono::milliseconds(800);
    o.check = level;
    o.dump_file = file.path();
    std::vector<std::string> messages(4);
    std::atomic<int> ended = 0;
    loopback::run(
        plan_for(4),
        [&](communicator& comm) {
            std::vector<float> data(1000, 1);
            comm.allreduce(std::span(data));
            if (comm.rank() == 3) {
                while (ended < 3) std::this_thread::yield();
                return;
            }
            try {
                comm.allreduce(std::span(data));
            } catch (const timeout_error& e) {
                messages[static_cast<std::size_t>(comm.rank())] = e.what();
            }
            ++ended;
            EXPECT_THROW(comm.allreduce(std::span(data)), usage_error);  // broken
        },
        o);
    for (int r = 0; r < 3; ++r) {
        const std::string& m = messages[static_cast<std::size_t>(r)];
        EXPECT_NE(m.find("timed out after 0.8 s (options::timeout), waiting for rank"), std::string::npos)
            << r << ": " << m;
        EXPECT_NE(m.find("rank 3, which does not answer: "), std::string::npos) << r << ": " << m;
        EXPECT_NE(m.find(where), std::string::npos) << m;
    }
    const nlohmann::json dump = read(file.path().string() + ".0.json");
    EXPECT_EQ(dump["rank"], 0);
    EXPECT_FALSE(dump["waits_for"].empty());
    EXPECT_FALSE(dump["events"].empty());
}

void ask_who_waits(options::checking level) {
    const temporary file("usr1");
    options o;
    o.check = level;
    o.dump_file = file.path();
    loopback::run(
        plan_for(2),
        [&](communicator& comm) {
            std::vector<float> data(1000, 1);
            comm.allreduce(std::span(data));
            if (comm.rank() == 0) {
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                std::raise(SIGUSR1);
                while (!std::filesystem::exists(file.path().string() + ".1.json")) std::this_thread::yield();
            }
            comm.allreduce(std::span(data));
        },
        o);
    const nlohmann::json dump = read(file.path().string() + ".1.json");
    EXPECT_EQ(dump["rank"], 1);
    EXPECT_FALSE(dump["waits_for"].empty());
}

}  // namespace

TEST(deadline, names_the_rank_that_is_missing_and_where) {
    miss_a_rank(options::checking::off, ": call 2: stage 0 up");
    miss_a_rank(options::checking::every, "allreduce of 1000 float32, sum (call 2): rank");
}

TEST(deadline, sigusr1_dumps_what_a_rank_does) {
    ask_who_waits(options::checking::off);
    ask_who_waits(options::checking::every);
}

TEST(trace, has_a_slice_for_each_chunk_on_tracks_by_rank_and_stage) {
    const temporary file("trace");
    options o;
    o.trace_file = file.path();
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    const plan p = plan_of(
        machine, {{{0}, 2, mode::scatter, "", provider::shared_memory}, {{1}, 2, mode::scatter, "ring"}}, 2, 4096);
    loopback::run(
        p,
        [&](communicator& comm) {
            std::vector<float> data(10 * 1024, 1);  // 10 chunks
            comm.allreduce(std::span(data));
        },
        o);
    const nlohmann::json trace = read(file.path());
    int slices = 0;
    std::set<int> ranks;
    for (const nlohmann::json& e : trace) {
        ranks.insert(e["pid"].get<int>());
        if (e["ph"] != "X") continue;
        ++slices;
        EXPECT_GE(e["dur"].get<double>(), 0);
    }
    EXPECT_EQ(ranks, (std::set{0, 1, 2, 3}));
    EXPECT_EQ(slices, 4 * 4 * 10);  // ranks x stages up and down x chunks
}

// Slices of one track follow one another, whatever calls and communicators are in flight together.
TEST(trace, tracks_hold_no_two_slices_at_once) {
    const temporary file("trace");
    options o;
    o.trace_file = file.path();
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    const plan p = plan_of(machine, {{{0, 1}, 4, mode::scatter, "ring"}}, 2, 4096);
    loopback::run(
        p,
        [&](communicator& comm) {
            std::optional<communicator> half = comm.split(comm.rank() % 2);
            std::vector<float> a(10 * 1024, 1), b(5 * 1024, 1), c(7 * 1024, 1);
            request first = comm.allreduce_async(std::span(a));
            request second = comm.allreduce_async(std::span(b));
            request third = half->allreduce_async(std::span(c));
            third.wait();
            second.wait();
            first.wait();
        },
        o);
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
    std::set<int> communicators;
    std::set<std::int64_t> bytes;
    for (const nlohmann::json& e : read(file.path())) {
        if (e["ph"] != "X") continue;
        const double begin = e["ts"].get<double>();
        tracks[{e["pid"].get<int>(), e["tid"].get<int>()}].emplace_back(begin, begin + e["dur"].get<double>());
        communicators.insert(e["args"]["communicator"].get<int>());
        bytes.insert(e["args"]["bytes"].get<std::int64_t>());
        EXPECT_EQ(e["args"]["collective"], "allreduce");
        EXPECT_EQ(e["args"]["type"], "float32");
    }
    EXPECT_EQ(communicators.size(), 8U);  // ranks are threads of one process, and each has two
    EXPECT_EQ(bytes, (std::set<std::int64_t>{5 * 4096, 7 * 4096, 10 * 4096}));
    constexpr double rounding = 0.002;  // [us]
    for (auto& [track, slices] : tracks) {
        std::sort(slices.begin(), slices.end());
        for (std::size_t i = 1; i < slices.size(); ++i) EXPECT_LE(slices[i - 1].second, slices[i].first + rounding);
    }
}

// Rank 0 begins it; the others must not wait for rank 0 in their first call.
TEST(trace, that_cannot_be_written_is_an_error_on_all_ranks) {
    const temporary file("no-such-directory");
    for (const std::string& name : {file.path().string() + "/trace", std::string("."), std::string("/dev/full")})
        for (int attempt = 0; attempt < 2; ++attempt) {
            options o;
            o.trace_file = name;
            try {
                loopback::run(
                    plan_for(3), [](communicator&) { ADD_FAILURE() << "created"; }, o);
                ADD_FAILURE() << name;
            } catch (const usage_error& e) {
                EXPECT_TRUE(std::string(e.what()).starts_with("rank 0: " + name + ": ")) << e.what();
            }
        }
}

}  // namespace terrace::detail::test::async_test
