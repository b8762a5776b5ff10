// Bucket sizes that are chosen by predictions, and gradients in traces.

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gradients/bucket_sizes.hpp"
#include "loopback/gradients.hpp"
#include "plan/plan_access.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::test::bucket_sizes_test {

namespace {

constexpr std::int64_t mib = 1 << 20;

// Returns the number of buckets for 16 gradients of a MiB, ready every `gap`. Calls take `start_up + of_mib * MiB` [s].
std::size_t buckets_chosen(double gap, double start_up, double of_mib = 1e-3) {
    std::vector<gradient_parameter> parameters;
    std::vector<double> ready;
    for (int p = 0; p < 16; ++p) {
        parameters.push_back(floats("p", mib / 4));
        ready.push_back(gap * p);
    }
    const std::vector<int> order = reverse_order(parameters.size());
    const auto time = [&](std::int64_t bytes) { return start_up + of_mib * static_cast<double>(bytes) / mib; };
    const gradient_options best = sizes_that_end_first(parameters, order, ready, {}, time);
    EXPECT_LE(predicted_end(parameters, order, ready, best, time),
              1.005 * predicted_end(parameters, order, ready, {}, time));
    return lay_out(parameters, order, best).size();
}

}  // namespace

TEST(bucket_sizes, follow_from_start_ups_and_gaps) {
    EXPECT_EQ(buckets_chosen(0, 1e-3), 1u);    // all gradients are ready at once
    EXPECT_GE(buckets_chosen(1.5e-3, 0), 8u);  // each call ends before the next gradient is ready
    const std::size_t some = buckets_chosen(1e-3, 2e-3);
    EXPECT_GT(some, 1u);
    EXPECT_LT(some, 16u);
}

// One bucket at the end takes 75 ms, at most 16 us more than a bucket for each gradient.
TEST(bucket_sizes, make_few_buckets_where_calls_take_no_time) { EXPECT_LE(buckets_chosen(5e-3, 0, 1e-6), 2u); }

TEST(bucket_sizes, are_the_same_on_all_ranks_and_chosen_once) {
    options o;
    o.place = options::placement::anywhere;
    const plan p = plan::load(std::string(TERRACE_SOURCE_ROOT) + "/tests/golden/two-by-four.plan.yaml");
    const rule& first = data_of(p).rules.at(collective::allreduce).front();
    std::atomic<int> buckets{0}, rebuilds{0};
    loopback::run(
        p,
        [&](communicator& comm) {
            EXPECT_GT(comm.predicted(64 << 10), comm.predicted(0));
            EXPECT_NEAR(comm.predicted(first.at), first.predicted, 1e-6);
            EXPECT_GT(comm.predicted(2 * mib), comm.predicted(mib));
            gradient_options automatic;
            automatic.bucket_bytes = gradient_options::automatic;
            gradient_reducer reducer(comm, std::vector(30, floats("p", 2000)), automatic);
            for (int turn = 0; turn < 10; ++turn) {
                for (int q = 29; q >= 0; --q) {
                    reducer.gradient<float>(q)[7] = static_cast<float>(q + comm.rank());
                    reducer.ready(q);
                }
                reducer.finish();
                for (int q = 0; q < 30; ++q) EXPECT_EQ(reducer.gradient<float>(q)[7], static_cast<float>(q) + 3.5f);
            }
            buckets += reducer.buckets();
            rebuilds += reducer.rebuilds();
            std::vector<int> mine{reducer.buckets(), reducer.rebuilds()}, all(16);
            comm.allgather(mine, all);
            for (std::size_t i = 2; i < all.size(); ++i) EXPECT_EQ(all[i], all[i - 2]);
        },
        o);
    EXPECT_GE(buckets, 8);
    EXPECT_EQ(rebuilds, 8);
}

// A trace shows gradients, buckets, stages of calls and exposed time together.
TEST(gradient_trace, has_rows_for_gradients_buckets_and_iterations) {
    const std::filesystem::path file = temporary("gradients.json");
    options o;
    o.trace_file = file;
    loopback::run(
        plan_of_all_collectives(machines_of_size(2).back()),
        [](communicator& comm) {
            gradient_reducer reducer(comm, {floats("first \"layer\"", 100), floats("b", 100)}, caps(0, 0));
            for (int turn = 0; turn < 3; ++turn) {
                for (int p : {1, 0}) reducer.ready(p);
                reducer.finish();
            }
        },
        o);
    const nlohmann::json events = nlohmann::json::parse(std::ifstream(file));
    std::map<std::pair<int, int>, std::string> tracks;
    for (const auto& e : events)
        if (e["name"] == "thread_name") tracks[{e["pid"], e["tid"]}] = e["args"]["name"];
    std::map<std::string, int> slices;
    for (const auto& e : events)
        if (e["ph"] == "X") {
            const std::string track = tracks.at({e["pid"], e["tid"]});
            ++slices[track.substr(0, track.find(','))];
            EXPECT_TRUE(track != "gradients" || e["name"] == "first \"layer\"" || e["name"] == "b") << e;
            EXPECT_GE(e["dur"], 0);
        }
    EXPECT_EQ(slices["gradients"], 2 * 3 * 2);
    EXPECT_EQ(slices["buckets in flight"], 2 * 3 * 2);
    EXPECT_EQ(slices["iteration"], 2 * 3 * 2);
    EXPECT_GT(slices.size(), 3u);  // stages
}

}  // namespace terrace::detail::test::bucket_sizes_test
