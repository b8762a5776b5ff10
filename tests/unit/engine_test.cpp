// Calls in flight on one rank, on a network whose requests complete when the test decides.

#include "executor/engine.hpp"

#include <deque>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fake_network.hpp"
#include "support/sketch.hpp"

namespace terrace::detail::engine_test {
namespace {

using test::fake_rank;
using test::sketch;

// Makes programs that send one message to rank 1, or run one stage in lane slots.
struct fixture {
    explicit fixture(int lane_slots = 0) : rank(4, 1 << 20, engine::request_slots(2), lane_slots) {}

    program& message() {
        program::shape s;
        s.chunks = {1, 1, 1};
        const schedule only = sketch(1).add(action::send, 1).done();
        return programs.emplace_back(only, only, s, rank.net);
    }
    program& stage(int lanes, std::int64_t chunks) {
        program::shape s;
        s.chunks = {1, chunks, 1};
        s.lanes = lanes;
        s.placed = true;
        sketch only(1);
        only.raw().groups = {group({0, 1}, {{0, 1}, {1, 1}})};
        only.add({.what = action::stage_broadcast, .peer = 0, .dst = {}, .src = {buffer::send, {0, 1}}});
        return programs.emplace_back(only.done(), only.done(), s, rank.net);
    }
    std::uint64_t issue(program& p) { return calls.issue(p, {data, data}); }
    void progress() {
        while (calls.progress()) {}
    }
    std::vector<std::string> waits() const {
        waiting all;
        calls.add_waits({10, 11, 12, 13}, all);
        return all.lines;
    }

    fake_rank rank;
    recorder events{false};
    engine calls{rank.net, 2, events};
    std::deque<program> programs;
    float data[64] = {};
};

// Calls after different histories have different tags, if the network's tags have room for that.
TEST(engine, tags_carry_what_a_rank_has_called) {
    for (const int highest : {std::numeric_limits<int>::max(), (1 << 28) - 1, (1 << 22) - 1}) {
        const call_tags one(0x1234567, highest), other(0x1234568, highest), none(0, highest);
        std::set<int> all;
        for (const call_tags& tags : {one, other, none})
            for (const int number : {0, 2, 77, 65'535, 65'536, 65'538}) {
                EXPECT_LE(tags.of(number), highest);
                all.insert(tags.of(number));
            }
        EXPECT_EQ(all.size(), 3u * 4 + 2) << highest;  // too large numbers have equal tags in all histories
        EXPECT_EQ(none.of(77), 77);
    }
    EXPECT_EQ(call_tags(0x1234567, 32'766).of(77), 77);

    fixture f;
    for (const std::uint64_t history : {5, 6}) {
        f.calls.issue(f.message(), {f.data, f.data}, {.number = history, .history = history});
        f.progress();
    }
    const auto& sent = f.rank.wire->in_flight;
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent[0].tag >> 16, 5);
    EXPECT_EQ(sent[1].tag >> 16, 6);
    EXPECT_EQ(f.calls.stamp_of_oldest().number, 5u);
}

TEST(engine, calls_complete_in_any_order) {
    fixture f;
    EXPECT_TRUE(f.calls.idle());
    EXPECT_EQ(f.issue(f.message()), 1u);
    EXPECT_EQ(f.issue(f.message()), 2u);
    f.progress();
    ASSERT_EQ(f.rank.wire->in_flight.size(), 2u);
    EXPECT_NE(f.rank.wire->in_flight[0].tag, f.rank.wire->in_flight[1].tag);
    f.rank.wire->complete(1);
    f.progress();
    EXPECT_FALSE(f.calls.done(1));
    EXPECT_TRUE(f.calls.done(2));
    f.rank.wire->complete();
    f.progress();
    EXPECT_TRUE(f.calls.idle());
}

TEST(engine, a_call_begins_when_few_enough_are_before_it) {
    fixture f;
    for (int k = 0; k < engine::most_running + 2; ++k) f.issue(f.message());
    f.progress();
    EXPECT_EQ(f.rank.wire->in_flight.size(), std::size_t{engine::most_running});
    EXPECT_EQ(f.waits().at(engine::most_running), "call 17: waiting for earlier calls");
    f.rank.wire->complete(5);
    f.progress();
    EXPECT_EQ(f.rank.wire->in_flight.size(), std::size_t{engine::most_running} - 1)
        << "the tags of call 17 are those of call 1";
    f.rank.wire->complete(0);
    f.progress();
    EXPECT_EQ(f.rank.wire->in_flight.size(), std::size_t{engine::most_running} - 1);
    EXPECT_EQ(f.waits().size(), std::size_t{engine::most_running});
}

TEST(engine, says_what_calls_are_waiting_for_in_the_callers_numbers) {
    fixture f;
    f.issue(f.message());
    f.progress();
    waiting all;
    f.calls.add_waits({10, 11, 12, 13}, all);
    EXPECT_EQ(all.lines, (std::vector<std::string>{"call 1: stage 0 up, step 0, chunk 0: send to rank 11"}));
    EXPECT_EQ(all.ranks, (std::set{11}));
}

TEST(engine, calls_occupy_lane_slots_in_turn) {
    fixture f(3);
    f.issue(f.stage(2, 3));  // slots 0 and 1, with chunks 0, 2 and 1
    f.issue(f.stage(2, 2));  // slots 2 and 0
    f.progress();
    const auto turns = [&] {
        std::vector<std::pair<int, std::uint64_t>> all;
        for (const auto& s : f.rank.stages->in_flight) all.emplace_back(s.call->lane_slot, s.call->turn);
        return all;
    };
    using expected = std::vector<std::pair<int, std::uint64_t>>;
    EXPECT_EQ(turns(), (expected{{0, 0}, {1, 0}})) << "the second call waits for slot 0";
    f.rank.stages->complete();
    f.progress();
    EXPECT_EQ(turns(), (expected{{1, 0}, {0, 1}}));
    f.rank.stages->complete();
    f.rank.stages->complete();
    f.progress();
    EXPECT_TRUE(f.calls.done(1));
    EXPECT_EQ(turns(), (expected{{2, 0}, {0, 2}})) << "two chunks ran in slot 0 before";
    EXPECT_EQ(f.rank.stages->in_flight[0].call->through, 1u);
}

TEST(engine, is_beginning_until_all_lanes_are_under_way) {
    fixture f(2);
    f.issue(f.stage(2, 2));
    EXPECT_FALSE(f.calls.beginning()) << "the call has not begun";
    f.calls.progress();
    EXPECT_TRUE(f.calls.beginning());
    f.progress();
    EXPECT_FALSE(f.calls.beginning());
}

TEST(engine, age_is_that_of_the_oldest_call_since_it_was_first_asked) {
    fixture f;
    EXPECT_EQ(f.calls.age().count(), 0);
    f.issue(f.message());
    EXPECT_EQ(f.calls.age().count(), 0);
    const auto one = f.calls.age(), two = f.calls.age();
    EXPECT_LE(one, two);
    EXPECT_GE(one.count(), 0);
}

}  // namespace
}  // namespace terrace::detail::engine_test
