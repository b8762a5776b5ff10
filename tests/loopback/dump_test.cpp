// Files that ranks write: dumps of calls that do not complete, and traces.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <terrace/loopback.hpp>

#include "support/bad_calls.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::test::dump_test {

namespace {

nlohmann::json read(const std::filesystem::path& file) { return nlohmann::json::parse(std::ifstream(file)); }

// Lets rank 3 miss a call. Expects the same errors and dumps of ranks that wait in the call or in its comparison.
void miss_a_rank(options::checking level, const std::string& where) {
    const temporary_directory folder;
    const std::filesystem::path file = folder.path() / "dump";
    options o;
    o.timeout = std::chrono::milliseconds(800);
    o.check = level;
    o.dump_file = file;
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
    const nlohmann::json dump = read(file.string() + ".0.json");
    EXPECT_EQ(dump["rank"], 0);
    EXPECT_FALSE(dump["waits_for"].empty());
    EXPECT_FALSE(dump["events"].empty());
}

void ask_who_waits(options::checking level) {
    const temporary_directory folder;
    const std::filesystem::path file = folder.path() / "usr1";
    options o;
    o.check = level;
    o.dump_file = file;
    loopback::run(
        plan_for(2),
        [&](communicator& comm) {
            std::vector<float> data(1000, 1);
            comm.allreduce(std::span(data));
            if (comm.rank() == 0) {
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                std::raise(SIGUSR1);
                while (!std::filesystem::exists(file.string() + ".1.json")) std::this_thread::yield();
            }
            comm.allreduce(std::span(data));
        },
        o);
    const nlohmann::json dump = read(file.string() + ".1.json");
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
    const temporary_directory folder;
    const std::filesystem::path file = folder.path() / "trace";
    options o;
    o.trace_file = file;
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
    const nlohmann::json trace = read(file);
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

// Slices of a track do not overlap, even if several calls and communicators are in flight.
TEST(trace, tracks_hold_no_two_slices_at_once) {
    const temporary_directory folder;
    const std::filesystem::path file = folder.path() / "trace";
    options o;
    o.trace_file = file;
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
    for (const nlohmann::json& e : read(file)) {
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

// Rank 0 creates the file. Its error reaches all ranks, so none waits for rank 0 in its first call.
TEST(trace, that_cannot_be_written_is_an_error_on_all_ranks) {
    const temporary_directory folder;
    const std::filesystem::path file = folder.path() / "no-such-directory";
    for (const std::string& name : {file.string() + "/trace", std::string("."), std::string("/dev/full")})
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

}  // namespace terrace::detail::test::dump_test
