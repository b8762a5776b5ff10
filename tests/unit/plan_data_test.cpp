// The tree of stages on a machine, and the rule for a size.

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "plan/plan_data.hpp"
#include "plan/predicted_time.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::plan_data_test {
namespace {

hierarchy machine(tree shape, std::vector<std::string> names) {
    hierarchy h;
    h.shape = std::move(shape);
    for (std::string& name : names) {
        level l;
        l.name = std::move(name);
        l.bandwidth = 1e9;
        h.levels.push_back(std::move(l));
    }
    return h;
}

hierarchy uniform() { return machine(tree::uniform(std::vector{4, 6, 2}), {"node", "rack", "core"}); }
hierarchy uneven() { return machine(tree({{4, 2, 3, 3, 1}, {2, 3}, {2}}), {"node", "rack", "core"}); }

stage on(std::vector<int> levels, int group, std::string_view algorithm = "ring") {
    return {std::move(levels), group, mode::scatter, std::string(algorithm)};
}

std::string refusal(const hierarchy& h, const std::vector<stage>& stages) {
    return refusal_of<plan_error>([&] { stage_tree(h, stages); });
}

TEST(stage_tree, keeps_merges_and_splits_levels) {
    const hierarchy h = uniform();
    EXPECT_EQ(stage_tree(h, std::vector{on({0}, 4), on({1}, 6), on({2}, 2)}), h.shape);
    EXPECT_EQ(stage_tree(h, std::vector{on({0, 1, 2}, 48)}), tree::uniform(std::vector{48}));
    EXPECT_EQ(stage_tree(h, std::vector{on({0}, 4), on({1, 2}, 12)}), tree::uniform(std::vector{4, 12}));
    EXPECT_EQ(stage_tree(h, std::vector{on({0}, 4), on({1}, 2), on({1}, 3), on({2}, 2)}),
              tree::uniform(std::vector{4, 2, 3, 2}));
}

TEST(stage_tree, follows_uneven_domains) {
    EXPECT_EQ(stage_tree(uneven(), std::vector{on({0, 1}, 0), on({2}, 2)}), tree({{6, 7}, {2}}));
    EXPECT_EQ(stage_tree(uneven(), std::vector{on({0}, 0), on({1, 2}, 5)}), tree({{4, 2, 3, 3, 1}, {5}}));
}

TEST(stage_tree, names_the_stage_that_does_not_fit) {
    EXPECT_NE(refusal(uniform(), {on({0}, 4)}).find("no stage covers level rack"), std::string::npos);
    EXPECT_NE(refusal(uniform(), {on({0}, 4), on({2}, 2)}).find("stages[1] (core): level rack is left out"),
              std::string::npos);
    EXPECT_NE(refusal(uniform(), {on({0}, 4), on({0}, 4)}).find("stages[1] (node): level node is covered already"),
              std::string::npos);
    EXPECT_NE(refusal(uniform(), {on({0}, 0)}).find("all groups have the same size; write group: 4"),
              std::string::npos);
    EXPECT_NE(refusal(uniform(), {on({0}, 4), on({1}, 4), on({2}, 2)}).find("stages[1] (rack)"), std::string::npos);
    EXPECT_NE(
        refusal(uniform(), {on({0}, 4), on({1}, 2), on({2}, 2)}).find("each domain of level rack still has 3 children"),
        std::string::npos);
    EXPECT_NE(refusal(uniform(), {on({0, 1}, 23), on({2}, 2)}).find("makes groups of 24"), std::string::npos);
    EXPECT_NE(refusal(uneven(), {on({0}, 4), on({1}, 0), on({2}, 2)}).find("write 1..4"), std::string::npos);
    EXPECT_NE(refusal(uniform(), {on({0}, 4), on({0}, 4), on({1}, 6), on({2}, 2)}).find("covered already"),
              std::string::npos);
}

TEST(plan_data, chooses_by_size) {
    plan_data r;
    r.name = "x";
    for (const std::int64_t bound : {std::int64_t{100}, std::int64_t{200}, rule::no_bound})
        r.rules[collective::allreduce].emplace_back().up_to = bound;
    EXPECT_EQ(r.choose(collective::allreduce, 0).up_to, 100);
    EXPECT_EQ(r.choose(collective::allreduce, 100).up_to, 100);
    EXPECT_EQ(r.choose(collective::allreduce, 101).up_to, 200);
    EXPECT_EQ(r.choose(collective::allreduce, 1'000'000).up_to, rule::no_bound);
    EXPECT_THROW(r.choose(collective::broadcast, 1), plan_error);
}

TEST(plan_data, describes_stages) {
    EXPECT_EQ(describe(uniform(), std::vector{on({0}, 4, "direct"), on({1, 2}, 12)}),
              "node:4 scatter direct > rack+core:12 scatter ring");
    EXPECT_EQ(describe(uneven(), std::vector{on({0}, 0), on({1, 2}, 5)}),
              "node:1..4 scatter ring > rack+core:5 scatter ring");
}

TEST(plan_data, names_read_back) {
    for (const collective c : {collective::allreduce, collective::reduce_scatter, collective::allgather,
                               collective::broadcast, collective::reduce})
        EXPECT_EQ(parse_collective(to_string(c)), c);
    for (const mode m : {mode::scatter, mode::root, mode::replicate}) EXPECT_EQ(parse_mode(to_string(m)), m);
    EXPECT_FALSE(parse_mode("Scatter"));
}

// A rule for all sizes, with times of 1 GiB, also predicts short messages: its start-ups do not grow with its size.
TEST(predicted_time, of_short_messages_is_little_more_than_the_limit) {
    const auto time = [](std::int64_t bytes, std::int64_t at) {
        plan_data p;
        const double limit = static_cast<double>(at) / 1e8;
        p.rules[collective::allreduce] = {
            {.up_to = rule::no_bound, .at = at, .predicted = 1.01 * limit, .limit = limit, .stages = {}}};
        return predicted_time(p, collective::allreduce, bytes) * 1e8 / static_cast<double>(bytes);
    };
    EXPECT_NEAR(time(1 << 20, 1 << 30), 1.01, 0.01);
    EXPECT_NEAR(time(8 << 10, 1 << 30), 1.01, 0.1);
    EXPECT_NEAR(time(8 << 10, 64 << 10), 1.08, 1e-9) << "1 % of 64 KiB are start-ups";
}

}  // namespace
}  // namespace terrace::detail::plan_data_test
