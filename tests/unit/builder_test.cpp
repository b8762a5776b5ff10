// Order, steps and channels that the builder adds to the generators' instructions.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/builder.hpp"
#include "schedule/lower.hpp"

namespace terrace::detail::builder_test {
namespace {

builder two_ranks(std::int64_t count) { return builder(0, 2, collective::allreduce, count); }

bool waits_for(const schedule& s, std::size_t n, std::size_t earlier) {
    const auto after = s.successors_of(s.instrs[earlier]);
    return std::find(after.begin(), after.end(), n) != after.end();
}

std::vector<action> actions(const schedule& s) {
    std::vector<action> result;
    for (const instr& i : s.instrs) result.push_back(i.what);
    return result;
}

operand sent(std::int64_t begin, std::int64_t end) { return {buffer::send, {begin, end}}; }
operand result(std::int64_t begin, std::int64_t end) { return {buffer::recv, {begin, end}}; }

TEST(builder, orders_a_read_after_a_write_and_a_write_after_reads) {
    builder out = two_ranks(8);
    out.recv(1, range{0, 8});
    out.send(1, range{0, 4});
    out.send(1, range{4, 8});
    out.recv(1, range{2, 6});
    const schedule s = out.finish();
    EXPECT_TRUE(waits_for(s, 1, 0));
    EXPECT_TRUE(waits_for(s, 2, 0));
    EXPECT_TRUE(waits_for(s, 3, 0));
    EXPECT_TRUE(waits_for(s, 3, 1));
    EXPECT_TRUE(waits_for(s, 3, 2));
    EXPECT_EQ(s.instrs[3].waits, 3u);
}

TEST(builder, leaves_unordered_what_does_not_conflict) {
    builder out = two_ranks(8);
    out.recv(1, range{0, 4});
    out.recv(1, range{4, 8});
    out.send(1, range{0, 2});
    out.send(1, range{1, 3});
    const schedule s = out.finish();
    EXPECT_EQ(s.instrs[0].waits, 0u);
    EXPECT_EQ(s.instrs[1].waits, 0u);
    EXPECT_FALSE(waits_for(s, 2, 1));
    EXPECT_FALSE(waits_for(s, 3, 2)) << "two reads of one element";
}

TEST(builder, orders_a_write_after_a_read_of_the_callers_buffer_since_both_are_one_in_place) {
    builder out = two_ranks(4);
    out.send(1, range{0, 4});
    out.recv(1, range{0, 4});
    const schedule s = out.finish();
    EXPECT_EQ(s.instrs[0].src, sent(0, 4));
    EXPECT_TRUE(waits_for(s, 1, 0));
}

TEST(builder, an_instruction_does_not_wait_for_itself) {
    builder out = two_ranks(4);
    out.recv_reduce(1, range{0, 4});
    const schedule s = out.finish();
    EXPECT_EQ(s.instrs[0].waits, 0u);
    EXPECT_TRUE(s.successors.empty());
}

TEST(builder, scratch_is_fresh_and_ordered_apart_from_the_vector) {
    builder out = two_ranks(4);
    const operand a = out.scratch(4), b = out.scratch(3);
    out.recv(1, a);
    out.recv(1, b);
    out.reduce(range{0, 4}, {range{0, 4}, a});
    const schedule s = out.finish();
    EXPECT_EQ(s.scratch, 7);
    EXPECT_FALSE(a.part.overlaps(b.part));
    EXPECT_TRUE(waits_for(s, 2, 0));
    EXPECT_FALSE(waits_for(s, 2, 1));
}

TEST(builder, reads_the_callers_buffer_until_something_is_written) {
    builder out = two_ranks(8);
    out.send(1, range{0, 8});
    out.recv_reduce(1, range{0, 4});
    out.send(1, range{0, 4});
    out.send(1, range{4, 8});
    const schedule s = out.finish();
    EXPECT_EQ(s.instrs[0].src, sent(0, 8));
    EXPECT_EQ(s.instrs[1].src, sent(0, 4));
    EXPECT_EQ(s.instrs[1].dst, result(0, 4));
    EXPECT_EQ(s.instrs[2].src, result(0, 4));
    EXPECT_EQ(s.instrs[3].src, sent(4, 8));
}

TEST(builder, copies_the_rest_where_an_operand_is_partly_written) {
    builder out = two_ranks(8);
    out.recv(1, range{2, 4});
    out.send(1, range{0, 8});
    const schedule s = out.finish();
    ASSERT_EQ(actions(s), (std::vector{action::recv, action::copy, action::copy, action::send}));
    EXPECT_EQ(s.instrs[1].src, sent(0, 2));
    EXPECT_EQ(s.instrs[1].dst, result(0, 2));
    EXPECT_EQ(s.instrs[2].dst, result(4, 8));
    EXPECT_EQ(s.instrs[3].src, result(0, 8));
    EXPECT_EQ(s.instrs[3].waits, 3u);
}

TEST(builder, one_rank_alone_copies_its_input) {
    builder out(0, 1, collective::allreduce, 5);
    const schedule s = out.finish();
    ASSERT_EQ(actions(s), std::vector{action::copy});
    EXPECT_EQ(s.instrs[0].src, sent(0, 5));
    EXPECT_EQ(s.instrs[0].dst, result(0, 5));
}

TEST(builder, a_reduction_completes_neighbouring_parts_that_the_rank_owns) {
    builder out = two_ranks(8);
    out.owns({0, 3});
    out.owns({3, 6});
    out.recv_reduce(1, range{0, 6});
    out.recv_reduce(1, range{6, 8});
    const schedule s = out.finish();
    EXPECT_EQ(s.owned, (std::vector<range>{{0, 6}}));
    EXPECT_TRUE(s.instrs[0].completes);
    EXPECT_FALSE(s.instrs[1].completes);
}

TEST(builder, leaves_empty_messages_out) {
    builder out = two_ranks(0);
    out.send(1, range{0, 0});
    out.recv(1, range{0, 0});
    out.recv_reduce(1, range{0, 0});
    out.reduce(range{0, 0}, {range{0, 0}, range{0, 0}});
    EXPECT_TRUE(out.finish().instrs.empty());
}

TEST(builder, numbers_messages_per_peer_and_direction) {
    builder out(0, 3, collective::allreduce, 6);
    out.send(1, range{0, 1});
    out.recv(1, range{1, 2});
    out.send(2, range{0, 1});
    out.send(1, range{2, 3});
    out.recv_reduce(1, range{1, 2});
    const schedule s = out.finish();
    std::vector<int> channels;
    for (const instr& i : s.instrs)
        if (i.peer >= 0) channels.push_back(i.channel);
    EXPECT_EQ(channels, (std::vector{0, 0, 0, 1, 1}));
}

TEST(builder, stages_side_by_side_stand_in_the_order_of_their_steps) {
    builder out = two_ranks(4);
    out.next_step();
    out.send(1, range{0, 1});
    out.next_step();
    out.send(1, range{1, 2});
    out.go_to_step(1);
    out.send(1, range{2, 3});
    const schedule s = out.finish();
    EXPECT_EQ(s.instrs[0].src, sent(0, 1));
    EXPECT_EQ(s.instrs[1].src, sent(2, 3));
    EXPECT_EQ(s.instrs[2].src, sent(1, 2));
    EXPECT_EQ(s.instrs[1].channel, 1);
}

TEST(lower, keeps_copies_of_the_callers_buffer_to_scratch) {
    builder out = two_ranks(4);
    const operand kept = out.scratch(4);
    out.copy(kept, range{0, 4});
    const schedule s = lower(out.finish(), {});
    ASSERT_EQ(actions(s), (std::vector{action::copy, action::copy}));
    EXPECT_EQ(s.instrs[0].dst, kept);
    EXPECT_EQ(s.instrs[1].dst, result(0, 4));
}

}  // namespace
}  // namespace terrace::detail::builder_test
