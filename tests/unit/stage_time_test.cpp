// Each term of a stage's time by itself, with loads written by hand.

#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "base/wire.hpp"
#include "planner/stage_time.hpp"

namespace terrace::detail::test::stage_time_test {
namespace {

constexpr double o = 2e-6, alpha = 10e-6, beta = 1e-9;
constexpr double segment = wire_segment;

message_load messages(double part, double count, bool whole = false) {
    return {static_cast<float>(part), static_cast<float>(o), whole ? 0 : static_cast<float>(wire_segment), count};
}

// The load of a phase in which all ranks do the same.
phase_load phase_of(processor_load load, double ranks = 1) {
    phase_load p;
    p.in_memory = false;
    set_loads(p, {std::move(load)}, std::vector{ranks});
    return p;
}

TEST(message_load, costs_o_for_each_segment) {
    EXPECT_EQ(messages(1, 1).segments(segment), 1);
    EXPECT_EQ(messages(1, 1).segments(segment + 1), 2);
    EXPECT_EQ(messages(0.5, 1).segments(10 * segment), 5);
    EXPECT_EQ(messages(1, 1, true).segments(10 * segment), 1) << "whole messages";
    EXPECT_FLOAT_EQ(messages(0.5, 3).time(10 * segment), 3 * 5 * o);
}

// A rank sends and receives at the same time: the larger of both times counts, plus the time in memory.
TEST(processor_load, adds_up_memory_and_messages) {
    const processor_load load{{messages(1, 2)}, {messages(1, 3)}, static_cast<float>(beta)};
    EXPECT_FLOAT_EQ(load.time(1000), 3 * o + 1000 * beta);
}

TEST(stage_time, of_the_slowest_rank) {
    phase_load p;
    const processor_load sends{{messages(1, 4)}, {}, 0}, adds{{}, {}, static_cast<float>(beta)};
    set_loads(p, {sends, adds, sends}, std::vector{1.0, 2.0, 5.0});
    EXPECT_EQ(p.loads.size(), 2U);
    EXPECT_EQ(p.ranks, (std::vector{6.0, 2.0}));
    EXPECT_EQ(p.load_of_sample, (std::vector{0, 1, 0}));
    EXPECT_FLOAT_EQ(slowest_rank_time(p, 8), 4 * o);
    EXPECT_FLOAT_EQ(slowest_rank_time(p, 48 * 1024), 48 * 1024 * beta);
}

// A chain of five hops: no rank sends more than one message, but each rank waits for the one before it.
TEST(stage_time, of_ranks_that_wait_for_one_another_adds_up) {
    phase_load p = phase_of({{messages(1, 1)}, {messages(1, 1)}, 0});
    p.path = {messages(1, 5)};
    p.path_memory = beta;
    EXPECT_FLOAT_EQ(rank_time(p, 1000), 5 * o + 1000 * beta);
}

TEST(stage_time, of_wires_is_in_turn_beyond_the_request_slots) {
    phase_load p;
    p.wire = beta;
    p.in_turn = 2 * beta;
    p.overlap = 1e-3;
    EXPECT_DOUBLE_EQ(wire_time(p, 1e5), 1e5 * beta);
    EXPECT_DOUBLE_EQ(wire_time(p, 1e7), 2 * 1e7 * beta - 1e-3);
}

TEST(stage_time, of_steps) {
    phase_load p = phase_of({{messages(1, 1)}, {}, 0}, 10);
    p.startups = alpha;
    p.wire = beta;
    EXPECT_FLOAT_EQ(step_time(p, 1000), alpha + 1000 * beta + o);
    p.in_memory = true;
    EXPECT_FLOAT_EQ(step_time(p, 1000), alpha + std::max(1000 * beta, o)) << "processors move the data themselves";
}

// Two nodes of three: four hops inside, one between them.
phase_load ring_of_two_nodes() {
    phase_load p = phase_of({});
    p.startups = 7 * alpha;
    p.wire = beta;
    p.lap = {
        {.latency = alpha, .wire = beta / 6, .message = messages(1. / 6, 1), .memory = 0, .count = 4, .within = {2}},
        {.latency = 7 * alpha, .wire = beta, .message = messages(1. / 6, 1), .memory = 0, .count = 1, .within = {0}}};
    return p;
}

TEST(stage_time, of_a_lap_is_that_of_all_hops) {
    const phase_load p = ring_of_two_nodes();
    EXPECT_EQ(lap_time({}, 1000), 0);
    // Short parts do not wait in line.
    const auto passing = [](double bytes, double wire) { return wire * bytes + o; };
    const double sum = 4 * (alpha + passing(60, beta / 6)) + 7 * alpha + passing(60, beta);
    EXPECT_NEAR(lap_time(p, 60), sum, 1e-12);
    // Long parts wait in line before the slow hop, for two of the hops inside a node.
    const double bytes = 60000, slow = passing(bytes, beta), fast = passing(bytes, beta / 6);
    const double longer = 2 * (slow - (alpha + fast));
    ASSERT_GT(longer, 0);
    EXPECT_NEAR(lap_time(p, bytes), 4 * (alpha + fast) + 7 * alpha + slow + longer, 1e-12);
}

TEST(stage_time, of_a_phase_is_that_of_its_steps_or_of_a_lap) {
    phase_load p = ring_of_two_nodes();
    EXPECT_DOUBLE_EQ(phase_time(p, 60), lap_time(p, 60));
    EXPECT_DOUBLE_EQ(startup_time(p), 11 * alpha);
    p.startups = 20 * alpha;
    EXPECT_DOUBLE_EQ(phase_time(p, 60), step_time(p, 60));
    EXPECT_DOUBLE_EQ(startup_time(p), 20 * alpha);
}

// A rank takes part in two hops of a chain.
TEST(stage_time, that_a_lane_is_held_is_that_of_one_rank) {
    phase_load p = phase_of({{messages(1, 1)}, {messages(1, 1)}, 0});
    p.startups = 9 * alpha, p.wire = 9 * beta;
    p.held_startups = 2 * alpha, p.held_wire = 2 * beta;
    EXPECT_FLOAT_EQ(held_time(p, 1000), 2 * alpha + 2 * beta * 1000 + o);
}

TEST(stage_price, adds_up_phases) {
    phase_load up, down;
    up.startups = 1, down.startups = 10;
    up.links = {{0, 1}, {3, 3}}, down.links = {{0, 2}, {2, 1}};
    const stage_price s{{std::make_shared<const phase_load>(up), std::make_shared<const phase_load>(down)}};
    EXPECT_EQ(s.time(0), 11);
    EXPECT_EQ(s.busiest_link(), 5);
}

}  // namespace
}  // namespace terrace::detail::test::stage_time_test
