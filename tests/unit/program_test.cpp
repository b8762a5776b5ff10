// A program of one rank, on a network on which the test decides when messages complete.

#include "executor/program.hpp"

#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/fake_network.hpp"
#include "support/sketch.hpp"

namespace terrace::detail::program_test {
namespace {

using test::fake_rank;
using test::sketch;
using floats = std::vector<float>;
using lines = std::vector<std::string>;

void add_floats(void* to, const void* const* from, int sources, std::int64_t count, int divisor) noexcept {
    for (std::int64_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int s = 0; s < sources; ++s) sum += static_cast<const float*>(from[s])[i];
        static_cast<float*>(to)[i] = sum / static_cast<float>(divisor);
    }
}

program::shape shape_of(slicing chunks, int lanes = 1) {
    program::shape s;
    s.reduce = add_floats;
    s.chunks = chunks;
    s.lanes = lanes;
    return s;
}

floats ascending(std::size_t count) {
    floats values(count);
    std::iota(values.begin(), values.end(), 0.0f);
    return values;
}

lines waits_of(const program& run) {
    waiting all;
    run.add_waits({10, 11, 12, 13}, all);
    return all.lines;
}

// One call of a program on a fake rank.
struct fixture {
    fixture(fake_rank& r, const sketch& full, const sketch& tail, const program::shape& s)
        : rank(r), run(full.done(), tail.done(), s, r.net) {
        run.borrow(pool);
    }
    fixture(fake_rank& r, const sketch& only, std::int64_t count)
        : fixture(r, only, only, shape_of({count, 1, count})) {}

    void start(const program::call_context& call = {}) {
        run.set_buffers({send.data(), recv.data()});
        run.start(call, events);
        advance();
    }
    // Completes requests that the network has completed, and issues the next instructions.
    void advance() {
        for (const int slot : rank.net.poll()) run.complete_request(slot);
        while (run.advance()) {}
    }
    std::vector<int> peers() const {
        std::vector<int> all;
        for (const auto& m : rank.wire->in_flight) all.push_back(m.peer);
        return all;
    }

    fake_rank& rank;
    scratch_pool pool;
    program run;
    recorder events{false};
    floats send = ascending(64), recv = floats(64, -1);
};

TEST(program, sends_receives_and_reduces_what_the_schedule_says) {
    fake_rank rank;
    fixture f(rank, sketch(4).add(action::send, 1).add(action::recv_reduce, 2), 4);
    f.start({.number = 5, .most_in_flight = 16});
    ASSERT_EQ(f.peers(), (std::vector{2, 1}));
    const auto& in = rank.wire->in_flight[0];
    const auto& out = rank.wire->in_flight[1];
    EXPECT_EQ(out.from, reinterpret_cast<const std::byte*>(f.send.data()));
    EXPECT_EQ(out.bytes, 16u);
    EXPECT_NE(in.to, reinterpret_cast<std::byte*>(f.recv.data())) << "into a staging buffer";
    EXPECT_EQ(in.tag, first_program_tag + 5);
    EXPECT_EQ(out.tag, first_program_tag + 5);
    rank.wire->deliver(0, floats{10, 10, 10, 10});
    f.advance();
    EXPECT_EQ(floats(f.recv.begin(), f.recv.begin() + 5), (floats{10, 11, 12, 13, -1}));
    EXPECT_FALSE(f.run.done());
    rank.wire->complete();
    f.advance();
    EXPECT_TRUE(f.run.done());
}

TEST(program, divides_where_a_reduction_completes) {
    fake_rank rank;
    sketch s(2);
    s.add(action::recv_reduce, 1);
    s.raw().instrs[0].completes = true;
    program::shape shape = shape_of({2, 1, 2});
    shape.divisor = 4;
    fixture f(rank, s, s, shape);
    f.start();
    rank.wire->deliver(0, floats{8, 7});
    f.advance();
    EXPECT_EQ(floats(f.recv.begin(), f.recv.begin() + 2), (floats{2, 2}));
}

TEST(program, cuts_messages_into_about_equal_segments_of_whole_elements) {
    fake_rank rank(2, 18);  // four floats fit, so 10 need three segments
    fixture f(rank, sketch(10).add(action::send, 1).add(action::recv_reduce, 1), 10);
    f.start();
    std::vector<std::size_t> bytes;
    for (const auto& m : rank.wire->in_flight) bytes.push_back(m.bytes);
    EXPECT_EQ(bytes, (std::vector<std::size_t>{16, 16, 8, 16, 16, 8}));
    EXPECT_EQ(rank.wire->in_flight[4].from, reinterpret_cast<const std::byte*>(f.send.data() + 4));
    rank.wire->deliver(2, floats{100, 200});  // the last segment arrives first
    rank.wire->deliver(0, floats(4, 100));
    f.advance();
    EXPECT_EQ(floats(f.recv.begin(), f.recv.begin() + 10), (floats{100, 101, 102, 103, -1, -1, -1, -1, 108, 209}));
}

TEST(program, has_eight_segments_in_flight_in_each_direction) {
    fake_rank rank(2, 4);
    fixture f(rank, sketch(12).add(action::send, 1).add(action::recv, 1), 12);
    f.start();
    const auto count = [&](bool sends) {
        return std::count_if(rank.wire->in_flight.begin(), rank.wire->in_flight.end(),
                             [&](const auto& m) { return m.sends == sends; });
    };
    EXPECT_EQ(count(true), slots_each_way);
    EXPECT_EQ(count(false), slots_each_way);
    for (int k = 0; k < 3; ++k) rank.wire->complete();  // receives
    f.advance();
    EXPECT_EQ(count(true), 8);
    EXPECT_EQ(count(false), 8);
    EXPECT_EQ(rank.wire->in_flight.back().to, reinterpret_cast<std::byte*>(f.recv.data() + 10));
}

TEST(program, runs_chunks_in_lanes_and_the_last_one_by_its_own_schedule) {
    fake_rank rank;
    fixture f(rank, sketch(4).add(action::send, 1), sketch(3).add(action::send, 2), shape_of({4, 5, 3}, 2));
    f.start({.number = 1, .most_in_flight = 16});
    std::vector<std::pair<int, std::size_t>> sent;  // tag, and element of the caller's buffer
    while (!f.run.done()) {
        const auto m = rank.wire->complete();
        sent.emplace_back(m.tag - first_program_tag,
                          static_cast<std::size_t>(reinterpret_cast<const float*>(m.from) - f.send.data()));
        EXPECT_EQ(m.bytes, sent.back().second == 16 ? 12u : 16u);
        EXPECT_EQ(m.peer, sent.back().second == 16 ? 2 : 1);
        f.advance();
    }
    // Lane 0 has chunks 0, 2 and 4, lane 1 chunks 1 and 3.
    EXPECT_EQ(sent, (std::vector<std::pair<int, std::size_t>>{{1, 0}, {17, 4}, {1, 8}, {17, 12}, {1, 16}}));
}

TEST(program, lanes_begin_one_by_one) {
    fake_rank rank;
    fixture f(rank, sketch(4).add(action::send, 1), sketch(4).add(action::send, 1), shape_of({4, 3, 4}, 3));
    f.run.set_buffers({f.send.data(), f.recv.data()});
    f.run.start({}, f.events);
    std::vector<std::size_t> in_flight;
    while (f.run.beginning()) {
        EXPECT_TRUE(f.run.advance());
        in_flight.push_back(rank.wire->in_flight.size());
    }
    f.run.advance();
    EXPECT_EQ(in_flight, (std::vector<std::size_t>{1, 1, 2, 2})) << "yield, begin lane 1, yield, begin lane 2";
    EXPECT_EQ(rank.wire->in_flight.size(), 3u);
}

TEST(program, copies_and_reduces_locally) {
    fake_rank rank;
    sketch s(2);
    s.raw().scratch = 2;
    s.raw().sources = {{buffer::send, {0, 2}}, {buffer::scratch, {0, 2}}, {buffer::send, {0, 2}}};
    s.add({.what = action::copy, .dst = {buffer::scratch, {0, 2}}, .src = {buffer::send, {0, 2}}});
    s.add({.what = action::reduce, .dst = {buffer::recv, {0, 2}}, .src = {}, .first_source = 0, .sources = 3});
    s.order(0, 1);
    fixture f(rank, s, 2);
    f.start();
    EXPECT_TRUE(f.run.done()) << "no message in it";
    EXPECT_EQ(floats(f.recv.begin(), f.recv.begin() + 3), (floats{0, 3, -1}));
}

TEST(program, says_what_it_is_waiting_for) {
    fake_rank rank;
    sketch s(4);
    s.raw().phases = {{.stage = 2, .down = true}};
    s.add(action::send, 1, 3).add(action::recv, 2, 4).add(action::recv_reduce, 3, 5).order(1, 2);
    fixture f(rank, s, 4);
    EXPECT_TRUE(waits_of(f.run).empty());
    f.start();
    EXPECT_EQ(waits_of(f.run), (lines{"call 0: stage 2 down, step 3, chunk 0: send to rank 11",
                                      "call 0: stage 2 down, step 4, chunk 0: recv from rank 12"}));
    rank.wire->complete();
    rank.wire->complete();
    f.advance();
    EXPECT_EQ(waits_of(f.run), lines{"call 0: stage 2 down, step 5, chunk 0: recv_reduce from rank 13"});
}

// ---- stages of the transport ----------------------------------------------------------------------------------------

// Returns a schedule for a vector in the lane's slot: it is copied there, reduced by a stage, and optionally sent.
sketch staged(bool then_sends) {
    sketch s(4, 2);
    s.raw().home = {.where = buffer::scratch};
    s.raw().scratch = 4;
    s.raw().groups = {group({0, 1}, {{0, 2}, {2, 4}})};
    const operand vector{buffer::scratch, {0, 4}};
    s.add({.what = action::copy, .dst = vector, .src = {buffer::send, {0, 4}}});
    s.add({.what = action::stage_allreduce, .peer = 0, .dst = {buffer::recv, {0, 4}}, .src = vector, .channel = 7});
    s.order(0, 1);
    if (then_sends) s.add(action::send, 1).order(1, 2);
    return s;
}

program::shape in_slots(slicing chunks) {
    program::shape s = shape_of(chunks);
    s.placed = true;
    s.slot_bytes = test::fake_stages::slot_bytes;
    return s;
}

TEST(program, runs_stages_in_the_memory_of_its_lane_slot) {
    for (const bool then_sends : {false, true}) {  // without a send it is brief
        fake_rank rank(2, 1 << 20, 64, 3);
        fixture f(rank, staged(then_sends), staged(then_sends), in_slots({4, 2, 4}));
        f.run.place_lane(0, {.number = 2, .turn = 10});
        f.start({.number = 9, .through = 8, .most_in_flight = 16});
        for (const std::uint64_t turn : {10, 11}) {
            ASSERT_EQ(rank.stages->in_flight.size(), 1u);
            const stage_call& c = *rank.stages->in_flight[0].call;
            EXPECT_EQ(c.turn, turn);
            EXPECT_EQ(c.lane_slot, 2);
            EXPECT_EQ(c.channel, 7);
            EXPECT_EQ(c.number, 9u);
            EXPECT_EQ(c.through, 8u);
            EXPECT_EQ(c.last, !then_sends) << "nothing comes after it";
            EXPECT_EQ(c.src, rank.stages->memory.data() + 2 * test::fake_stages::slot_bytes);
            const std::size_t begin = 4 * (turn - 10);
            EXPECT_EQ(c.dst, reinterpret_cast<std::byte*>(f.recv.data() + begin));
            const auto* own = then_sends ? c.src : reinterpret_cast<const std::byte*>(f.send.data() + begin);
            EXPECT_EQ(c.own, own) << "what was copied there is read where it came from";
            EXPECT_EQ(reinterpret_cast<const float*>(c.src)[1], f.send[begin + 1]);
            EXPECT_EQ(waits_of(f.run).at(0),
                      fmt::format("call 9: stage 0 up, step 0, chunk {}: stage_allreduce with rank 11", turn - 10));
            rank.stages->complete();
            f.advance();
            if (!then_sends) continue;
            ASSERT_EQ(rank.wire->in_flight.size(), 1u);
            rank.wire->complete();
            f.advance();
        }
        EXPECT_TRUE(f.run.done());
        EXPECT_EQ(f.run.slot_of(0).turn, 12u);
    }
}

TEST(program, a_chunk_begins_when_peers_have_read_its_lane_slot) {
    for (const bool in_slot : {true, false}) {  // a vector elsewhere needs the slot's mailbox
        fake_rank rank(2, 1 << 20, 64, 1);
        rank.stages->readers = {1};
        program::shape shape = in_slots({4, 1, 4});
        if (!in_slot) shape.slot_bytes = 0;
        fixture f(rank, staged(false), staged(false), shape);
        f.run.place_lane(0, {});
        f.start();
        EXPECT_TRUE(rank.stages->in_flight.empty());
        EXPECT_EQ(waits_of(f.run), lines{"call 0: stage 0 up, step 0, chunk 0: memory that is still read by rank 11"});
        rank.stages->readers.clear();
        f.advance();
        ASSERT_EQ(rank.stages->in_flight.size(), 1u);
        rank.stages->complete();
        f.advance();
        EXPECT_TRUE(f.run.done());
    }
}

TEST(compiled_schedule, is_brief_with_one_stage_and_copies_alone) {
    EXPECT_TRUE(compiled_schedule(staged(false).done()).brief);
    EXPECT_TRUE(compiled_schedule(staged(false).done()).gives_copy);
    EXPECT_FALSE(compiled_schedule(staged(true).done()).brief);
    EXPECT_FALSE(compiled_schedule(sketch(4).add(action::send, 1).done()).brief);
    EXPECT_FALSE(compiled_schedule(sketch().done()).brief);
    sketch half = staged(false);
    half.raw().instrs[0].src.part = {0, 2};
    EXPECT_TRUE(compiled_schedule(half.done()).brief);
    EXPECT_FALSE(compiled_schedule(half.done()).gives_copy);
}

}  // namespace
}  // namespace terrace::detail::program_test
