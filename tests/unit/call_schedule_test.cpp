// From a call to the schedules of its ranks.

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "calls/binding.hpp"
#include "schedule/call_schedule.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::call_schedule_test {

namespace {

const hierarchy machine = machine_of(tree::uniform(std::vector{3, 2}));
const std::vector<stage> stages{{{0}, 3, mode::scatter, "", provider::shared_memory}, {{1}, 2, mode::scatter, "ring"}};
const capabilities can{.stages = ~0u, .domain = {0, 0, 0, 1, 1, 1}, .slot_bytes = 4096, .slots = 2};

rule rule_with(std::int64_t chunk) {
    rule r;
    r.stages = stages;
    r.lanes = 2;
    r.chunk = chunk;
    return r;
}

bool has_stage(const schedule& s) {
    return std::any_of(s.instrs.begin(), s.instrs.end(), [](const instr& i) { return is_stage(i.what); });
}

}  // namespace

TEST(call_schedule, one_rank_by_itself_runs_what_it_runs_among_all) {
    for (const collective what : all_collectives) {
        if (row_of(what).has_root() || row_of(what).exchange)
            continue;  // these stages have no root, and cannot exchange blocks
        collective_call call{.what = what, .count = 100};
        if (row_of(what).blocks) call.blocks = equal_blocks(6, 100);
        const call_layout all(machine, stages, call);
        for (int rank = 0; rank < 6; ++rank) {
            const call_layout own(machine, stages, call, rank);
            EXPECT_EQ(own.schedule_of(rank), all.schedule_of(rank));
            EXPECT_EQ(own.schedule_of(rank, can), all.schedule_of(rank, can));
            EXPECT_EQ(own.schedule_of(rank, can, buffer::recv), all.schedule_of(rank, can, buffer::recv));
        }
    }
}

TEST(call_schedule, stages_of_the_transport_run_what_fits_a_lane_slot) {
    const auto runs_stage = [](collective_call call) {
        return has_stage(call_layout(machine, stages, std::move(call)).schedule_of(1, can));
    };
    EXPECT_TRUE(runs_stage({.count = 1024}));
    EXPECT_FALSE(runs_stage({.count = 1025}));
    EXPECT_FALSE(runs_stage({.count = 1024, .element = 8}));
    EXPECT_TRUE(runs_stage({.what = collective::allgather, .blocks = equal_blocks(6, 170)}));
    EXPECT_FALSE(runs_stage({.what = collective::allgather, .blocks = equal_blocks(6, 171)}));
    EXPECT_FALSE(has_stage(call_layout(machine, stages, {.count = 1024}).schedule_of(1)));
}

TEST(call_schedule, the_vector_is_at_home_where_peers_reach_it) {
    const call_layout layout(machine, stages, {.count = 1000});
    EXPECT_EQ(layout.schedule_of(2, can).home.where, buffer::scratch);
    EXPECT_EQ(layout.schedule_of(2, can, buffer::recv).home.where, buffer::recv);
    EXPECT_EQ(layout.schedule_of(2).home.where, buffer::recv);
}

TEST(call_schedule, a_call_is_its_chunks) {
    const collective_call call{.count = 1000};
    const call_schedules made = schedules_of(machine, rule_with(1024), call, 1, can, buffer::scratch, {});
    EXPECT_EQ(made.chunks.chunks, 4);
    EXPECT_EQ(made.lanes, 2);
    EXPECT_EQ(made.full, call_layout(machine, stages, {.count = 256}).schedule_of(1, can));
    EXPECT_EQ(made.tail, call_layout(machine, stages, {.count = 232}).schedule_of(1, can));

    const call_schedules whole = schedules_of(machine, rule_with(0), call, 1, can, buffer::scratch, {});
    EXPECT_EQ(whole.lanes, 1);
    EXPECT_EQ(whole.full, schedule{});
    EXPECT_EQ(whole.tail, call_layout(machine, stages, call).schedule_of(1, can));
}

TEST(call_schedule, a_chunk_has_the_same_part_of_every_block) {
    const collective_call call{.what = collective::allgather, .count = 100, .blocks = equal_blocks(6, 100)};
    const collective_call chunk = call.chunk(16);
    EXPECT_EQ(call.elements(), 600);
    EXPECT_EQ(chunk.elements(), 96);
    EXPECT_EQ(chunk.blocks[5], (range{500, 516}));
    const collective_call given{.what = collective::allgather, .blocks = {{0, 3}, {3, 4}}, .counts_given = true};
    EXPECT_EQ(given.elements(), 4);
}

TEST(call_schedule, blocks_of_unequal_counts_go_on_by_steps_of_their_own) {
    collective_call call{.what = collective::allgather, .counts_given = true};
    const std::vector<std::int64_t> counts{0, 700, 0, 350, 2, 900};
    call.blocks = side_by_side(counts);
    const call_schedules made = schedules_of(machine, rule_with(1024), call, 1, can, buffer::scratch, {});
    const std::int64_t chunks = made.chunks.chunks;
    ASSERT_GT(chunks, 7);
    EXPECT_EQ(made.full, call_layout(machine, stages, call.chunk_of(chunks, false)).schedule_of(1, can));
    EXPECT_EQ(made.tail, call_layout(machine, stages, call.chunk_of(chunks, true)).schedule_of(1, can));
    const auto step = [&](buffer where, std::int64_t begin, bool is_last = false) {
        return made.steps.of({where, {begin, begin + 1}}, 3, is_last);
    };
    EXPECT_EQ(step(buffer::recv, 0), 3 * (700 / chunks));
    EXPECT_EQ(step(buffer::recv, 701), 3 * (350 / chunks));
    EXPECT_EQ(step(buffer::recv, 1052), 3 * (900 / chunks));
    EXPECT_EQ(step(buffer::recv, 1052, true), 0) << "the last chunk's schedule is where it is";
    for (const bool is_last : {false, true}) EXPECT_EQ(step(buffer::send, 0, is_last), 3 * (700 / chunks));
    EXPECT_EQ(step(buffer::scratch, 1052), 0);
    EXPECT_TRUE(schedules_of(machine, rule_with(1024), {.count = 1000}, 1, can, buffer::scratch, {}).steps.empty());
}

// Rank 0 of the plan is the caller's rank 2.
TEST(call_schedule, callers_ranks_become_the_plans) {
    const plan_data plan;
    const std::vector<int> callers_rank{2, 0, 1};
    const binding own{plan, 0, callers_rank};
    EXPECT_EQ(own.planned({.what = collective::reduce, .count = 9, .counts = {}, .root = 2}).root, 0);
    EXPECT_EQ(own.planned({.what = collective::allgather, .count = 5, .counts = {}}).blocks,
              (std::vector<range>{{10, 15}, {0, 5}, {5, 10}}));
    const collective_call given = own.planned({.what = collective::reduce_scatter, .counts = {1, 2, 3}});
    EXPECT_EQ(given.blocks, (std::vector<range>{{3, 6}, {0, 1}, {1, 3}}));
    EXPECT_TRUE(given.counts_given);
    EXPECT_EQ(given.elements(), 6);
}

}  // namespace terrace::detail::test::call_schedule_test
