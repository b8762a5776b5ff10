// The parts of a simulation, except its lanes: events, processors, connections and stages in shared memory.

#include <gtest/gtest.h>

#include "planner/simulate/connections.hpp"
#include "planner/simulate/events.hpp"
#include "planner/simulate/memory_stages.hpp"
#include "planner/simulate/processor_times.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::sim::simulate_parts_test {
namespace {

using test::link;

// Returns a machine of two pairs of ranks: 1 GB/s and 10 us to each rank, 0.5 GB/s and 20 us between the pairs.
hierarchy two_pairs() {
    hierarchy h;
    h.levels = {link("node", fabric::ethernet, 1e9, 10e-6, 2e-6), link("net", fabric::ethernet, 0.5e9, 20e-6, 3e-6)};
    h.shape = tree::uniform(std::vector{2, 2});
    h.processors.reduction = 10e9;
    return h;
}

TEST(event_queue, hands_out_what_comes_first_and_what_was_added_first) {
    event_queue q;
    q.add({.time = 2, .subject = 1});
    q.add({.time = 1, .subject = 2});
    q.add({.time = 1 + 1e-14, .subject = 3});
    q.add({.time = 1, .subject = 4});
    std::vector<int> order;
    q.advance();
    EXPECT_EQ(q.now(), 1);
    while (q.has_due()) order.push_back(q.take().subject);
    EXPECT_EQ(order, (std::vector{2, 4, 3})) << "rounding makes no other moment";
    EXPECT_FALSE(q.empty());
    q.advance();
    EXPECT_EQ(q.now(), 2);
}

TEST(processor_times, a_rank_sends_beside_its_other_work) {
    processor_times cpus(two_pairs());
    EXPECT_EQ(cpus.send(0, 1.0, 0.25, 0), 1.25);
    EXPECT_EQ(cpus.work(0, 1.0, 0.5, 0), 1.5);
    EXPECT_EQ(cpus.work(0, 1.0, 0.5, 0), 2.0) << "after what it works on already";
    EXPECT_EQ(cpus.free_at(0, 1.0), 2.0);
    EXPECT_EQ(cpus.free_at(1, 1.0), 1.0);
    EXPECT_EQ(cpus.busy(), (std::vector{1.0, 0.0, 0.0, 0.0}));
}

TEST(processor_times, what_a_rank_copies_in_order_to_send_it_delays_its_other_work) {
    processor_times cpus(two_pairs());
    const double copied = cpus.send(0, 0, 1.0, 3e9);
    EXPECT_GT(copied, 1.0);
    EXPECT_EQ(cpus.free_at(0, 0), copied);
}

struct net_fixture {
    hierarchy machine = two_pairs();
    link_loads loads{machine};
    event_queue events;
    connections net{machine, loads, events};

    // Simulates until a segment of the connection has passed its links, and returns it.
    segment passed(int number) {
        for (;;) {
            net.share_links();
            events.advance();
            while (events.has_due()) {
                const event e = events.take();
                if (e.subject != number) continue;
                if (const auto s = net.take_passed(e.subject, e.time)) return *s;
            }
        }
    }
};

TEST(connections, have_the_start_up_of_the_level_where_their_ranks_meet) {
    net_fixture f;
    const auto near = f.net.ends_of(f.net.between(0, 1)), far = f.net.ends_of(f.net.between(1, 2));
    EXPECT_EQ(near.latency, 10e-6);
    EXPECT_EQ(far.latency, 20e-6);
    EXPECT_EQ(far.overhead, 3e-6);
    EXPECT_EQ(far.copies, 0);
    EXPECT_EQ(far.header, header_of(fabric::ethernet));
    EXPECT_EQ(f.net.between(0, 1), f.net.between(0, 1));
    EXPECT_NE(f.net.between(0, 1), f.net.between(1, 0));
    EXPECT_LT(f.net.ends_of(f.net.over(0)).to, 0);
}

TEST(connections, carry_one_segment_at_a_time_in_order) {
    net_fixture f;
    const int number = f.net.between(0, 2);
    f.net.enqueue(number, {{0, 0}, 7, 1e6});
    f.net.enqueue(number, {{0, 1}, 8, 1e6});
    EXPECT_EQ(f.passed(number).instruction, 7u);
    const double header = f.net.ends_of(number).header / 0.5e9;
    EXPECT_NEAR(f.events.now(), 2e-3 + header, 1e-9);
    EXPECT_EQ(f.passed(number).instruction, 8u);
    EXPECT_NEAR(f.events.now(), 4e-3 + 2 * header, 1e-9);
}

TEST(connections, events_of_a_faster_past_are_void) {
    net_fixture f;
    const int first = f.net.between(0, 2), second = f.net.between(1, 3);
    f.net.enqueue(first, {{0, 0}, 1, 1e6});
    f.net.share_links();
    f.net.enqueue(second, {{1, 0}, 2, 1e6});  // the two share the link between the pairs
    EXPECT_EQ(f.passed(first).instruction, 1u);
    EXPECT_NEAR(f.events.now(), 4e-3 + 2 * f.net.ends_of(first).header / 0.5e9, 1e-9);
}

TEST(connections, a_segment_is_received_when_it_has_arrived_and_is_expected) {
    net_fixture f;
    const int number = f.net.between(0, 1);
    f.net.arrive(number, 1);
    EXPECT_FALSE(f.net.take_received(number, 1)) << "not expected yet";
    f.net.expect(number, {{1, 0}, 4, 1});
    EXPECT_FALSE(f.net.take_received(number, 0)) << "it came for another lane";
    f.net.expect(number, {{1, 1}, 5, 1});
    ASSERT_EQ(f.net.take_received(number, 1)->instruction, 5u);
    EXPECT_FALSE(f.net.take_received(number, 1));
}

// Returns the times when two ranks in a stage of two rounds have gathered: before each round, and before they leave.
std::vector<double> gathered(double bytes_of_link, bool closes) {
    net_fixture f;
    processor_times cpus(f.machine);
    sim_programs tail;
    tail.of_rank.resize(2);
    for (sim_program& p : tail.of_rank)
        p.instrs = {{.what = action::stage_allreduce, .peer = 0, .bytes = 10, .again = 20}};
    tail.instances = {{.ranks = 2, .rounds = 2, .closes = closes, .latency = 1, .links = {{0, bytes_of_link}}}};
    const call_programs programs{.order = {}, .tail = {std::make_shared<const sim_programs>(std::move(tail))}};
    memory_stages stages(programs, cpus, f.net, f.events);
    stages.arrive(0, {{0, 0}, 0});
    EXPECT_TRUE(f.events.empty()) << "one of two";
    stages.arrive(0, {{1, 0}, 0});
    std::vector<double> times;
    std::size_t left = 0;
    for (; !f.events.empty(); f.net.share_links()) {
        for (f.events.advance(); f.events.has_due();) {
            const event e = f.events.take();
            if (e.what == event::worked) stages.worked(0, {{e.subject, e.lane}, e.instruction});
            if (e.what == event::gathered) {
                times.push_back(f.events.now());
                left = stages.gathered(e.chunk, e.subject).size();
            }
            if (e.what != event::passed_links) continue;
            if (const auto s = f.net.take_passed(e.subject, e.time)) stages.link_passed(0, {s->owner, s->instruction});
        }
    }
    EXPECT_EQ(left, 2u);
    return times;
}

TEST(memory_stages, go_round_by_round_until_all_ranks_and_links_are_through) {
    const auto expect_near = [](const std::vector<double>& times, const std::vector<double>& expected) {
        ASSERT_EQ(times.size(), expected.size());
        for (std::size_t i = 0; i < times.size(); ++i) EXPECT_NEAR(times[i], expected[i], 1e-6) << i;
    };
    expect_near(gathered(0.5e9, true), {1, 2, 3});
    expect_near(gathered(0.5e9, false), {1, 2, 2});
    expect_near(gathered(3e9, true), {1, 2, 5});
    expect_near(gathered(3e9, false), {1, 2, 4});
}

}  // namespace
}  // namespace terrace::detail::sim::simulate_parts_test
