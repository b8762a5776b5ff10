// The verifier's findings in small programs, correct and wrong.

#include <string_view>

#include <gtest/gtest.h>

#include "schedule/builder.hpp"
#include "schedule/verify.hpp"

namespace terrace::detail::verify_test {
namespace {

using program = std::vector<schedule>;

void expect_fault(const program& p, const expectation& of, std::string_view part_of_text) {
    const auto found = find_fault(p, of);
    ASSERT_TRUE(found) << "expected: " << part_of_text;
    EXPECT_NE(found->find(part_of_text), std::string::npos) << *found;
}

void expect_fault(const program& p, std::string_view part_of_text) { expect_fault(p, {}, part_of_text); }

// Returns an allreduce in which two ranks exchange all their data and add them.
program exchange(std::int64_t count) {
    program all;
    for (int rank = 0; rank < 2; ++rank) {
        builder out(rank, 2, collective::allreduce, count);
        out.owns({0, count});
        const operand theirs = out.scratch(count);
        out.send(1 - rank, range{0, count});
        out.recv(1 - rank, theirs);
        out.next_step();
        out.reduce(range{0, count}, {range{0, count}, theirs});
        all.push_back(out.finish());
    }
    return all;
}

enum { send, recv, reduce };  // its instructions

void forget_waits(schedule& s) {
    s.successors.clear();
    for (instr& i : s.instrs) i.first_successor = i.successors = i.waits = 0;
}

TEST(verifier, accepts_an_exchange) {
    for (std::int64_t count : {0, 1, 7}) EXPECT_EQ(find_fault(exchange(count)), std::nullopt);
}

TEST(verifier, names_rank_instruction_and_step) {
    program p = exchange(4);
    p[1].instrs[recv].dst.part.end = 5;
    EXPECT_EQ(find_fault(p),
              "rank 1, instruction 1 (recv, step 0): scratch[0, 5) lies outside of the buffer's 4 elements");
}

TEST(verifier, finds_a_write_to_the_callers_input) {
    program p = exchange(4);
    p[0].instrs[reduce].dst.where = buffer::send;
    expect_fault(p, "writes what the caller passed in");
}

TEST(verifier, finds_ends_that_differ) {
    program p = exchange(4);
    p[0].instrs[send].src.part.end = 3;
    expect_fault(p, "expects 4 elements, but rank 0 sends 3");
    p = exchange(4);
    p[0].instrs[send].step = -1;
    expect_fault(p, "rank 0 sends it in step -1");
    p = exchange(4);
    p[0].instrs[send].channel = 1;
    expect_fault(p, "channel 1 should be 0");
}

TEST(verifier, finds_a_message_that_nobody_receives) {
    program p = exchange(4);
    p[1].instrs[recv].what = action::copy;
    p[1].instrs[recv].src = {buffer::send, {0, 4}};
    expect_fault(p, "rank 1 does not receive it");
}

TEST(verifier, finds_a_race) {
    program p = exchange(4);
    forget_waits(p[0]);
    expect_fault(p, "rank 0, instruction 2 (reduce, step 1): may run before");
}

// Rank 0 sends its input, and receives the sum in the same memory. The answer shows that the message has arrived, but
// not that its request has completed.
TEST(verifier, an_answer_does_not_free_the_operand_of_a_send) {
    program p;
    builder zero(0, 2, collective::allreduce, 4), one(1, 2, collective::allreduce, 4);
    one.owns({0, 4});
    zero.send(1, range{0, 4});
    one.recv_reduce(0, range{0, 4});
    zero.next_step();
    one.next_step();
    zero.recv(1, range{0, 4});
    one.send(0, range{0, 4});
    p = {zero.finish(), one.finish()};
    EXPECT_EQ(find_fault(p), std::nullopt);
    forget_waits(p[0]);
    expect_fault(p, "may run before");
}

// Rank 0 overwrites a slot with data that rank 1 sends only after rank 0's notice that the slot has been read. So
// the messages order the write after the read, even if the write does not wait for the read itself.
TEST(verifier, sees_order_that_runs_through_messages) {
    builder zero(0, 2, collective::allreduce, 1), one(1, 2, collective::allreduce, 1);
    zero.owns({0, 1});
    const operand slot = zero.scratch(1), copy = zero.scratch(1), answer = zero.scratch(1), heard = one.scratch(1);
    zero.recv(1, slot);
    one.send(0, range{0, 1});
    zero.next_step();
    one.next_step();
    zero.copy(copy, slot);
    zero.send(1, copy);
    one.recv(0, heard);
    zero.next_step();
    one.next_step();
    zero.recv(1, answer);
    one.send(0, heard);
    zero.copy(slot, answer);
    zero.next_step();
    one.next_step();
    zero.reduce(range{0, 1}, {range{0, 1}, slot});
    zero.send(1, range{0, 1});
    one.recv(0, range{0, 1});
    program p{zero.finish(), one.finish()};
    ASSERT_EQ(find_fault(p), std::nullopt);

    enum { first_receive, read, word, second_receive, overwrite };
    schedule& s = p[0];
    forget_waits(s);
    const auto order = [&](std::uint32_t first, std::vector<std::uint32_t> then) {
        s.instrs[first].first_successor = static_cast<std::uint32_t>(s.successors.size());
        s.instrs[first].successors = static_cast<std::uint32_t>(then.size());
        for (std::uint32_t n : then) ++s.instrs[n].waits;
        s.successors.insert(s.successors.end(), then.begin(), then.end());
    };
    order(first_receive, {read});
    order(read, {word});
    order(second_receive, {overwrite});
    order(overwrite, {5});
    order(5, {6});
    EXPECT_EQ(find_fault(p), std::nullopt);

    // A notice that does not wait for the read orders nothing.
    s.instrs[read].successors = s.instrs[word].waits = 0;
    expect_fault(p, "rank 0, instruction 2 (send, step 1): may run before");
}

TEST(verifier, finds_a_deadlock_without_buffering) {
    program p;
    for (int rank = 0; rank < 2; ++rank) {
        builder out(rank, 2, collective::allreduce, 4);
        const operand theirs = out.scratch(4);
        out.recv(1 - rank, theirs);
        out.reduce(range{0, 4}, {range{0, 4}, theirs});
        out.send(1 - rank, range{0, 4});
        p.push_back(out.finish());
    }
    expect_fault(p, "a deadlock");
}

TEST(verifier, finds_a_contribution_counted_twice) {
    program p = exchange(4);
    for (schedule& s : p)
        for (operand& o : s.sources) o = {buffer::send, {0, 4}};
    expect_fault(p, "counts a rank's contribution twice");
}

TEST(verifier, finds_a_contribution_left_out) {
    program p = exchange(4);
    instr& i = p[1].instrs[reduce];
    i.sources = 1;
    expect_fault(p, "rank 1, instruction 2 (reduce, step 1): a reduction takes two operands at least");
    i = {.what = action::copy, .step = i.step, .dst = i.dst, .src = p[1].sources[i.first_source], .waits = i.waits};
    expect_fault(p, "rank 1: contributions are missing in recv[0, 4)");
}

// The sum is complete after its last reduction, in which avg divides once.
TEST(verifier, finds_a_sum_completed_never_early_or_twice) {
    program p = exchange(4);
    p[0].instrs[reduce].completes = false;
    expect_fault(p, "rank 0: no reduction completed the sum in recv[0, 4)");

    // Rank 0 adds the data of ranks 1 and 2.
    builder zero(0, 3, collective::reduce, 4), one(1, 3, collective::reduce, 4, {buffer::scratch, true}),
        two(2, 3, collective::reduce, 4, {buffer::scratch, true});
    zero.owns({0, 4});
    zero.recv_reduce(1, range{0, 4});
    one.send(0, range{0, 4});
    for (builder* each : {&zero, &one, &two}) each->next_step();
    zero.recv_reduce(2, range{0, 4});
    two.send(0, range{0, 4});
    p = {zero.finish(), one.finish(), two.finish()};
    EXPECT_EQ(find_fault(p), std::nullopt);
    p[0].instrs[0].completes = true;
    expect_fault(p, "rank 0, instruction 0 (recv_reduce, step 0): completes a sum that lacks contributions");
    p[0].instrs[1].completes = false;
    expect_fault(p, "completes a sum that lacks contributions");

    p = exchange(4);
    p[0].instrs[send].completes = true;
    expect_fault(p, "only a reduction completes");
}

TEST(verifier, finds_elements_in_the_wrong_place) {
    program p = exchange(4);
    p[0].instrs[send].src.part = {0, 3};
    p[1].instrs[recv].dst.part = {1, 4};
    expect_fault(p, "not all of it has been written");
    p[1].instrs[reduce].dst.part = {1, 4};
    for (operand& o : p[1].sources) o.part = {1, 4};
    expect_fault(p, "adds element 0 to element 1");
}

TEST(verifier, finds_a_result_that_is_not_written) {
    EXPECT_EQ(find_fault(program{builder(0, 1, collective::allreduce, 0).finish()}), std::nullopt);
    schedule idle = builder(0, 1, collective::allreduce, 0).finish();
    idle.count = 3;
    expect_fault(program{idle}, "nothing is written in recv[0, 3), out of place");
}

// Each of three ranks adds all inputs itself, and one of them does so in another order.
TEST(verifier, finds_bits_that_may_differ_between_ranks) {
    program p;
    for (int rank = 0; rank < 3; ++rank) {
        builder out(rank, 3, collective::allreduce, 1);
        out.owns({0, 1});
        std::vector<builder::place> inputs(3, builder::place(range{0, 1}));
        for (int distance = 1; distance < 3; ++distance) {
            const int from = (rank - distance + 3) % 3;
            inputs[static_cast<std::size_t>(from)] = out.scratch(1);
            out.next_step();
            out.send((rank + distance) % 3, range{0, 1});
            out.recv(from, inputs[static_cast<std::size_t>(from)]);
        }
        if (rank == 2) std::swap(inputs[0], inputs[1]);
        out.reduce(range{0, 1}, inputs);
        p.push_back(out.finish());
    }
    expect_fault(p, "rank 2: the order of additions differs from rank 0's");
}

// ---------------------------------------------------------------------------------------------- the other collectives

constexpr std::int64_t count = 4;
// Blocks in the caller's buffer of all blocks: rank 1's block comes first, and there is a gap.
const expectation blocks{.root = 0, .blocks = {{5, 7}, {0, 2}}};

// Returns a broadcast in which rank 0 sends its input to rank 1.
program broadcast() {
    builder zero(0, 2, collective::broadcast, count), one(1, 2, collective::broadcast, count);
    zero.send(1, range{0, count});
    one.recv(0, range{0, count});
    return {zero.finish(), one.finish()};
}

// Returns a reduce in which rank 0 adds rank 1's input.
program reduce_to_zero() {
    builder zero(0, 2, collective::reduce, count), one(1, 2, collective::reduce, count, {buffer::scratch, true});
    zero.owns({0, count});
    zero.recv_reduce(1, range{0, count});
    one.send(0, range{0, count});
    return {zero.finish(), one.finish()};
}

operand block_in(buffer all, int rank) { return {all, blocks.blocks[static_cast<std::size_t>(rank)]}; }
operand own(buffer where) { return {where, {0, 2}}; }

// Returns a call in which each rank sends the other rank's block of its input, and adds the received one to its own.
program reduce_scatter() {
    program all;
    for (int rank = 0; rank < 2; ++rank) {
        builder out(rank, 2, collective::reduce_scatter, count, {buffer::scratch, false});
        const operand theirs = out.scratch(2);
        out.send(1 - rank, block_in(buffer::send, 1 - rank));
        out.recv(1 - rank, theirs);
        out.next_step();
        out.reduce(own(buffer::recv), {block_in(buffer::send, rank), theirs});
        all.push_back(out.finish());
        all.back().instrs.back().completes = true;
    }
    return all;
}

// Returns a call in which each rank sends its own block to the other rank.
program allgather() {
    program all;
    for (int rank = 0; rank < 2; ++rank) {
        builder out(rank, 2, collective::allgather, count, {buffer::scratch, false});
        const operand mine = out.scratch(2);
        out.copy(mine, own(buffer::send));
        out.send(1 - rank, mine);
        out.recv(1 - rank, block_in(buffer::recv, 1 - rank));
        out.next_step();
        out.copy(block_in(buffer::recv, rank), mine);
        all.push_back(out.finish());
    }
    return all;
}

enum { take, send_block, recv_block, keep };  // its instructions

TEST(verifier, accepts_every_collective) {
    EXPECT_EQ(find_fault(broadcast()), std::nullopt);
    EXPECT_EQ(find_fault(reduce_to_zero()), std::nullopt);
    EXPECT_EQ(find_fault(reduce_scatter(), blocks), std::nullopt);
    EXPECT_EQ(find_fault(allgather(), blocks), std::nullopt);
}

TEST(verifier, refuses_terms_that_do_not_fit_the_schedules) {
    expect_fault(broadcast(), {.root = 2, .blocks = {}}, "no such root as 2");
    expect_fault(allgather(), "there are 0 blocks of 0 elements together, but 2 ranks and 4 elements");
    expect_fault(allgather(), {.root = 0, .blocks = {{0, 2}, {1, 3}}}, "blocks overlap");
    expect_fault({broadcast()[0], reduce_to_zero()[1]}, "rank 1 runs reduce, but rank 0 broadcast");
}

TEST(verifier, only_the_root_passes_in_what_is_broadcast) {
    expect_fault(broadcast(), {.root = 1, .blocks = {}}, "lies outside of what the caller passes in");
    program p = broadcast();
    p[1].instrs[0].dst.part = {0, 3};
    p[0].instrs[0].src.part = {0, 3};
    expect_fault(p, "rank 1: nothing is written in recv[3, 4)");
}

TEST(verifier, only_the_root_gets_what_is_reduced) {
    expect_fault(reduce_to_zero(), {.root = 1, .blocks = {}}, "lies outside of what the caller gets");
    program p = reduce_to_zero();
    p[0].instrs[0].what = action::recv;
    p[0].instrs[0].completes = false;
    expect_fault(p, "rank 0: contributions are missing in recv[0, 4)");
}

TEST(verifier, finds_a_block_reduced_for_another_rank) {
    program p = reduce_scatter();
    p[0].sources[p[0].instrs[reduce].first_source] = block_in(buffer::send, 1);
    expect_fault(p, blocks, "rank 0, instruction 2 (reduce, step 1): adds element 5 to element 0");
    p[0].instrs[reduce].sources = 1;
    p[0].instrs[reduce].completes = false;
    expect_fault(p, blocks, "rank 0, instruction 2 (reduce, step 1): a reduction takes two operands at least");
    p[0].instrs[reduce].what = action::copy;
    p[0].instrs[reduce].src = block_in(buffer::send, 1);
    p[0].instrs[reduce].sources = 0;
    expect_fault(p, blocks, "rank 0: elements of another place arrive in recv[0, 2), out of place");
}

TEST(verifier, finds_elements_of_a_block_that_change_places) {
    program p = allgather();
    builder one(1, 2, collective::allgather, count, {buffer::scratch, false});
    const operand second = one.scratch(1), first = one.scratch(1);
    one.copy(first, operand{buffer::send, {0, 1}});
    one.copy(second, operand{buffer::send, {1, 2}});
    const operand reversed{buffer::scratch, {second.part.begin, first.part.end}};
    one.send(0, reversed);
    one.recv(0, block_in(buffer::recv, 0));
    one.next_step();
    one.copy(block_in(buffer::recv, 1), reversed);
    p[1] = one.finish();
    expect_fault(p, blocks, "rank 0: elements of another place arrive in recv[0, 1), out of place");
}

TEST(verifier, finds_writes_between_the_callers_blocks) {
    program p = allgather();
    p[0].instrs[recv_block].dst.part = {2, 4};
    expect_fault(p, blocks, "recv[2, 4) lies outside of what the caller gets");
}

// Correct out of place. In place, the other rank's block overwrites this rank's own input.
TEST(verifier, finds_an_own_block_overwritten_in_place) {
    program p = reduce_scatter();
    for (schedule& s : p) {
        s.instrs[recv].dst = own(buffer::recv);
        s.sources[s.instrs[reduce].first_source + 1] = own(buffer::recv);
    }
    expect_fault(p, blocks, "instruction 2 (reduce, step 1): counts a rank's contribution twice");
}

// Likewise: in place, the block that is sent and the block that is written are the same memory.
TEST(verifier, finds_a_race_for_an_own_block_in_place) {
    program p = allgather();
    p[1].instrs[send_block].src = own(buffer::send);
    p[1].instrs[keep].src = own(buffer::send);
    expect_fault(p, blocks, "rank 1, instruction 3 (copy, step 1): may run before instruction 1");
}

}  // namespace
}  // namespace terrace::detail::verify_test
