// The order in which a lane machine issues instructions, recorded by a port.

#include "schedule/lane_machine.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/sketch.hpp"

namespace terrace::detail::lane_machine_test {
namespace {

using lines = std::vector<std::string>;

using test::sketch;

template <bool LocalsTakeTime>
struct notebook {
    static constexpr bool locals_take_time = LocalsTakeTime;

    const lane_code* begin_chunk(std::int64_t chunk) {
        log.push_back(fmt::format("begin {}", chunk));
        return held ? nullptr : code;
    }
    void end_chunk() { log.push_back("end"); }
    void end_lane() { log.push_back("over"); }
    std::uint32_t segments(std::uint32_t n) { return cut.contains(n) ? cut[n] : 1; }
    void send(std::uint32_t n, std::uint32_t segment) { log.push_back(fmt::format("send {}.{}", n, segment)); }
    void receive(std::uint32_t n, std::uint32_t segment) { log.push_back(fmt::format("recv {}.{}", n, segment)); }
    void start_stage(std::uint32_t n) { log.push_back(fmt::format("stage {}", n)); }
    void run_local(std::uint32_t n) { log.push_back(fmt::format("local {}", n)); }
    void completed(std::uint32_t n) { done.push_back(n); }

    lines take() { return std::exchange(log, {}); }

    const lane_code* code = nullptr;
    bool held = false;
    std::map<std::uint32_t, std::uint32_t> cut;
    lines log;
    std::vector<std::uint32_t> done;
};

// A lane machine with its port.
template <bool LocalsTakeTime = false>
struct fixture {
    explicit fixture(const sketch& s, int request_slots = 8, chunk_order order = {})
        : code(s.done()), machine(order, request_slots) {
        port.code = &code;
    }
    lines begin(std::int64_t chunk = 0) {
        machine.run_from(port, chunk);
        machine.issue(port);
        return port.take();
    }
    lines complete(std::uint32_t n) {
        machine.complete(port, n);
        machine.issue(port);
        return port.take();
    }

    lane_code code;
    lane_machine machine;
    notebook<LocalsTakeTime> port;
};

TEST(lane_machine, messages_of_each_direction_go_in_program_order_through_its_own_slots) {
    sketch s;
    for (int k = 0; k < 3; ++k) s.add(action::send, 1).add(action::recv, 2);
    fixture f(s, 2);
    EXPECT_EQ(f.begin(), (lines{"begin 0", "recv 1.0", "recv 3.0", "send 0.0", "send 2.0"}));
    EXPECT_EQ(f.complete(3), (lines{"recv 5.0"}));
    EXPECT_EQ(f.complete(0), (lines{"send 4.0"}));
    for (const std::uint32_t n : {1, 5, 2}) EXPECT_EQ(f.complete(n), lines{});
    EXPECT_EQ(f.complete(4), (lines{"end", "over"}));
    EXPECT_EQ(f.port.done, (std::vector<std::uint32_t>{3, 0, 1, 5, 2, 4}));
}

TEST(lane_machine, a_message_that_waits_holds_up_those_behind_it_in_its_direction_only) {
    fixture f(sketch().add(action::recv, 1).add(action::send, 2).add(action::send, 3).add(action::recv, 4).order(0, 1));
    EXPECT_EQ(f.begin(), (lines{"begin 0", "recv 0.0", "recv 3.0"}));
    EXPECT_EQ(f.complete(3), lines{});
    EXPECT_EQ(f.complete(0), (lines{"send 1.0", "send 2.0"}));
}

TEST(lane_machine, each_segment_of_a_message_occupies_a_slot) {
    fixture f(sketch().add(action::send, 1).add(action::send, 1), 2);
    f.port.cut = {{0, 3}, {1, 2}};
    EXPECT_EQ(f.begin(), (lines{"begin 0", "send 0.0", "send 0.1"}));
    EXPECT_EQ(f.complete(0), (lines{"send 0.2"}));
    EXPECT_EQ(f.complete(0), (lines{"send 1.0"}));
    EXPECT_TRUE(f.port.done.empty());
    EXPECT_EQ(f.complete(0), (lines{"send 1.1"}));
    EXPECT_EQ(f.port.done, (std::vector<std::uint32_t>{0}));
}

// Step 1 sends received data to other ranks than step 0, so its first send has a fence.
sketch halving() {
    return sketch()
        .add(action::send, 1, 0)
        .add(action::recv, 1, 0)
        .add(action::send, 2, 1)
        .add(action::send, 3, 1)
        .order(1, 2);
}

TEST(lane_machine, a_fenced_send_waits_until_no_send_is_in_flight) {
    fixture f(halving());
    EXPECT_TRUE(f.code.fenced[2]);
    EXPECT_EQ(f.begin(), (lines{"begin 0", "recv 1.0", "send 0.0"}));
    EXPECT_EQ(f.complete(1), lines{});
    EXPECT_EQ(f.complete(0), (lines{"send 2.0", "send 3.0"}));
}

TEST(lane_machine, with_one_slot_a_fence_changes_nothing) {
    for (const bool fenced : {true, false}) {
        fixture f(halving(), 1);
        f.code.fenced[2] = fenced;
        f.begin();
        EXPECT_EQ(f.complete(1), lines{}) << fenced;
        EXPECT_EQ(f.complete(0), (lines{"send 2.0"})) << fenced;
    }
}

TEST(lane_machine, only_the_first_segment_of_a_fenced_send_waits) {
    fixture f(halving());
    f.port.cut = {{2, 2}};
    f.begin();
    f.complete(1);
    EXPECT_EQ(f.complete(0), (lines{"send 2.0", "send 2.1", "send 3.0"}));
}

TEST(lane_machine, stages_run_one_at_a_time_in_program_order) {
    fixture f(sketch()
                  .add(action::recv, 1)
                  .add(action::stage_reduce_scatter, 0)
                  .add(action::stage_allgather, 0)
                  .add(action::stage_allreduce, 0)
                  .order(0, 1));
    EXPECT_EQ(f.begin(), (lines{"begin 0", "recv 0.0"})) << "the later ones wait for the first";
    EXPECT_EQ(f.complete(0), (lines{"stage 1"}));
    EXPECT_EQ(f.complete(1), (lines{"stage 2"}));
    EXPECT_EQ(f.complete(2), (lines{"stage 3"}));
    EXPECT_EQ(f.complete(3), (lines{"end", "over"}));
}

sketch chain_of_locals() {
    return sketch()
        .add(action::copy)
        .add(action::reduce)
        .add(action::send, 1)
        .add(action::copy)
        .order(0, 1)
        .order(1, 2)
        .order(1, 3);
}

TEST(lane_machine, locals_that_take_no_time_run_as_soon_as_their_inputs_are_there) {
    fixture f(chain_of_locals());
    EXPECT_EQ(f.begin(), (lines{"begin 0", "local 0", "local 1", "local 3", "send 2.0"}));
    EXPECT_EQ(f.complete(2), (lines{"end", "over"}));
}

TEST(lane_machine, locals_that_take_time_complete_when_the_port_says_so) {
    fixture<true> f(chain_of_locals());
    EXPECT_EQ(f.begin(), (lines{"begin 0", "local 0"}));
    EXPECT_EQ(f.complete(0), (lines{"local 1"}));
    EXPECT_EQ(f.complete(1), (lines{"local 3", "send 2.0"}));
    EXPECT_EQ(f.complete(3), lines{});
    EXPECT_EQ(f.complete(2), (lines{"end", "over"}));
}

TEST(lane_machine, a_lane_runs_every_so_many_chunks_one_after_another) {
    fixture f(sketch().add(action::send, 1), 8, {.chunks = 6, .lanes = 2});
    EXPECT_EQ(f.begin(1), (lines{"begin 1", "send 0.0"}));
    EXPECT_EQ(f.complete(0), (lines{"end", "begin 3", "send 0.0"}));
    EXPECT_EQ(f.complete(0), (lines{"end", "begin 5", "send 0.0"}));
    EXPECT_EQ(f.machine.chunk(), 5);
    EXPECT_EQ(f.complete(0), (lines{"end", "over"}));
    EXPECT_FALSE(f.machine.issue(f.port));
}

TEST(lane_machine, chunks_without_messages_complete_at_once) {
    const chunk_order three{.chunks = 3, .lanes = 1};
    EXPECT_EQ(fixture(sketch(), 8, three).begin(),
              (lines{"begin 0", "end", "begin 1", "end", "begin 2", "end", "over"}));
    EXPECT_EQ(fixture(sketch().add(action::copy), 8, {.chunks = 2, .lanes = 1}).begin(),
              (lines{"begin 0", "local 0", "end", "begin 1", "local 0", "end", "over"}));
}

TEST(lane_machine, rests_while_the_port_holds_a_chunk) {
    fixture f(sketch().add(action::send, 1), 8, {.chunks = 2, .lanes = 1});
    f.port.held = true;
    EXPECT_EQ(f.begin(), (lines{"begin 0"}));
    EXPECT_FALSE(f.machine.issue(f.port));
    f.port.held = false;
    EXPECT_EQ(f.begin(f.machine.chunk()), (lines{"begin 0", "send 0.0"}));
}

TEST(lane_machine, knows_what_is_in_flight) {
    fixture f(sketch().add(action::send, 1).add(action::recv, 1).add(action::stage_allgather, 0).add(action::send, 1),
              1);
    const auto in_flight = [&] {
        std::vector<std::uint32_t> found;
        f.machine.for_each_in_flight([&](std::uint32_t n) { found.push_back(n); });
        return found;
    };
    EXPECT_TRUE(in_flight().empty());
    f.begin();
    EXPECT_EQ(in_flight(), (std::vector<std::uint32_t>{0, 1, 2}));
    f.complete(0);
    f.complete(2);
    EXPECT_EQ(in_flight(), (std::vector<std::uint32_t>{1, 3}));
}

TEST(chunk_order, every_chunk_is_of_one_lane) {
    for (const int lanes : {1, 2, 3, 7})
        for (const std::int64_t chunks : {1, 2, 3, 6, 7, 20}) {
            const chunk_order order{chunks, lanes};
            std::int64_t sum = 0, used = 0;
            for (int l = 0; l < lanes; ++l) {
                std::int64_t here = 0;
                for (std::int64_t c = order.first_of(l); order.exists(c); c = order.next(c), ++here)
                    EXPECT_EQ(order.lane_of(c), l);
                EXPECT_EQ(here, order.chunks_of(l));
                sum += here;
                used += here > 0;
            }
            EXPECT_EQ(sum, chunks);
            EXPECT_EQ(used, order.lanes_used());
            EXPECT_TRUE(order.is_tail(chunks - 1));
        }
}

TEST(lane_starter, begins_lanes_one_by_one_when_nothing_else_is_to_do) {
    std::string log;
    const auto begin = [&](int lane) { log += fmt::format("lane {}; ", lane); };
    const auto yield = [&] { log += "yield; "; };
    lane_starter s(lane_start::one_by_one);
    s.start(
        3, [](int) { return true; }, begin);
    EXPECT_EQ(log, "lane 0; ");
    for (const bool issued : {true, true, false, false, false}) {
        EXPECT_TRUE(s.pending());
        s.after_pass(issued, yield, begin);
    }
    EXPECT_EQ(log, "lane 0; yield; lane 1; yield; lane 2; ");
    EXPECT_FALSE(s.pending());
}

TEST(lane_starter, begins_all_lanes_at_once) {
    std::vector<int> begun;
    lane_starter s(lane_start::all_at_once);
    bool may = true;
    const auto may_follow = [&](int) { return may; };
    const auto begin = [&](int lane) { begun.push_back(lane); };
    s.start(3, may_follow, begin);
    EXPECT_EQ(begun, (std::vector{0, 1, 2}));
    EXPECT_FALSE(s.pending());
    may = false;
    s.start(2, may_follow, begin);
    s.go_on(may_follow, begin);
    EXPECT_TRUE(s.pending());
    may = true;
    s.go_on(may_follow, begin);
    EXPECT_EQ(begun, (std::vector{0, 1, 2, 0, 1}));
}

}  // namespace
}  // namespace terrace::detail::lane_machine_test
