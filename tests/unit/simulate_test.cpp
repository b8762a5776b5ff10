// The results of a simulation for processors, links and chunks, and the calls that it refuses.

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "planner/planner.hpp"
#include "planner/pricer.hpp"
#include "planner/simulate/simulate.hpp"
#include "planner/trials.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::simulate_test {
namespace {

TEST(simulate, overhead_keeps_processors_busy) {
    const hierarchy h = free_network(tree::uniform(std::vector{5}), 3e-6);
    const simulation s = simulate(h, rule_of({{{0}, 5, mode::scatter, "direct"}}), collective::allreduce, 5 * 64);
    for (const double busy : s.processors) EXPECT_NEAR(busy, 2 * 4 * 3e-6, 1e-12);
    EXPECT_EQ(s.messages, 2 * 5 * 4);
}

// Each end reads and writes a byte to copy it. A reduction reads two bytes and writes one.
TEST(simulate, what_a_rank_copies_and_adds_up_is_done_by_one_core) {
    hierarchy h;
    h.levels = {link("node", fabric::shm, 1e15, 0, 0)};
    h.shape = tree::uniform(std::vector{2});
    h.processors.reduction = 10e9;
    const double access = 1 / (3 * h.processors.reduction);
    const simulation s = simulate(h, rule_of({{{0}, 2, mode::replicate, "direct"}}), collective::allreduce, mib);
    EXPECT_NEAR(s.time, (2 + 2 + 3) * mib * access, 1e-3 * s.time);
}

// Unlike 4 of 8 ranks, 3 of 6 are no node of the reduction tree: for half of the data they send two partial results.
TEST(simulate, reproducible_reductions_move_partial_results) {
    for (const auto& [ranks, times] : {std::pair{3, 1.5}, {4, 1.0}}) {
        const hierarchy h = free_network(tree::uniform(std::vector{ranks, 2}));
        for (const mode how : {mode::scatter, mode::replicate}) {
            const rule r = rule_of({{{0}, ranks, mode::scatter, "direct"}, {{1}, 2, how, "direct"}});
            const auto load = [&](bool reproducible) {
                double most = 0;
                for (const link_load& l :
                     simulate(h, r, collective::allreduce, 6 * mib, {.reproducible = reproducible}).links)
                    if (l.row == 1) most = std::max(most, l.bytes);
                return most;
            };
            EXPECT_NEAR(load(true), times * load(false), 1e-3 * load(true)) << ranks << ' ' << to_string(how);
        }
    }
}

TEST(simulate, loads_no_link_beyond_its_rate) {
    dice d(4711);
    for (const hierarchy& h : uneven_machines()) {
        rule r = rule_of(random_stages(h, collective::allreduce, d));
        r.lanes = 3;
        r.chunk = 64 * kib;
        const simulation s = simulate(h, r, collective::allreduce, mib);
        EXPECT_GE(s.time, limit(h, mib, collective::allreduce) * (1 - 1e-6)) << text(h.shape);
        for (const link_load& l : s.links) {
            EXPECT_LE(l.bytes, l.rate * s.time * (1 + 1e-6)) << text(h.shape);
            EXPECT_NEAR(std::accumulate(l.history.begin(), l.history.end(), 0.0), l.bytes, 1e-3 * l.bytes + 1);
            for (const float in_interval : l.history)
                EXPECT_LE(in_interval, l.rate * s.interval * 1.01) << text(h.shape);
        }
    }
}

// Reads of stages in shared memory and messages of other chunks pass the links inside a node at the same time.
TEST(simulate, stages_in_memory_and_messages_share_links) {
    hierarchy h = free_network(tree::uniform(std::vector{4, 2}));
    h.levels[0] = link("node", fabric::shm, 1e9, 0.5e-6, 0);
    h.levels[1] = link("net", fabric::infiniband, 36e9, 9e-6, 0);
    rule r = rule_of({{{0}, 4, mode::scatter, "", provider::shared_memory}, {{1}, 2, mode::replicate, "direct"}});
    r.lanes = 2;
    r.chunk = 192 * kib;
    const double time = simulate(h, r, collective::allreduce, 16 * mib).time;
    EXPECT_GE(time, limit(h, 16 * mib, collective::allreduce));
    EXPECT_LE(time, 1.02 * limit(h, 16 * mib, collective::allreduce));
}

TEST(simulate, says_what_every_chunk_did) {
    const hierarchy h = machine(tree::uniform(std::vector{4, 2}));
    rule r = rule_of({{{0}, 4, mode::scatter, "", provider::shared_memory}, {{1}, 2, mode::scatter, "ring"}});
    r.lanes = 2;
    r.chunk = 256 * kib;
    double done = 0;
    const simulation s =
        simulate(h, r, collective::allreduce, 2 * mib, {.progress = [&](double part) { done = part; }});
    EXPECT_EQ(s.chunks.chunks, 8);
    EXPECT_EQ(s.lanes, 2);
    EXPECT_LE(done, 1);
    std::set<std::tuple<int, std::int64_t, int, bool>> seen;
    for (const stage_span& span : s.spans) {
        EXPECT_LE(0, span.begin);
        EXPECT_LE(span.begin, span.end);
        EXPECT_LE(span.end, s.time);
        EXPECT_EQ(span.lane, span.chunk % 2);
        seen.emplace(span.rank, span.chunk, span.stage, span.down);
    }
    EXPECT_EQ(seen.size(), s.spans.size());
    EXPECT_EQ(seen.size(), 8u * 8 * 4);
}

// All rules of a plan use slots of the same length.
TEST(simulate, slices_as_the_runtime_does) {
    const hierarchy h = machine(tree::uniform(std::vector{4, 2}));
    const rule in_node =
        rule_of({{{0}, 4, mode::scatter, "", provider::shared_memory}, {{1}, 2, mode::scatter, "ring"}});
    rule longer = in_node;
    longer.chunk = 4 * mib;
    plan_data plan;
    plan.rules = {{collective::allreduce, {in_node}}, {collective::allgather, {longer}}};
    const auto chunks = [&](const simulation_options& o) {
        return simulate(h, in_node, collective::allreduce, 3 * mib, o).chunks.chunks;
    };
    EXPECT_EQ(chunks({}), 3);
    EXPECT_EQ(chunks({.slot_bytes = slot_bytes(plan)}), 1);
    longer.stages.front().algorithm = "ring";  // needs no slot
    EXPECT_EQ(slot_bytes(std::vector{longer}), 64 * kib);
}

TEST(simulate, says_the_same_again) {
    const hierarchy h = machine(tree({{4, 2, 3, 3, 1}, {2, 3}, {2}}));
    const rule r = make_plan("m", h).choose(collective::allreduce, 4 * mib);
    const simulation a = simulate(h, r, collective::allreduce, 4 * mib);
    const simulation b = simulate(h, r, collective::allreduce, 4 * mib);
    EXPECT_EQ(a.time, b.time);
    EXPECT_EQ(a.spans.size(), b.spans.size());
}

TEST(simulate, scales_programs_of_one_length_to_chunks_of_any) {
    const hierarchy h = machine(tree({{4, 2, 3}, {3}}));
    const plan_data plan = make_plan("m", h);
    for (const collective what : {collective::allreduce, collective::broadcast, collective::alltoall})
        for (const std::int64_t bytes : {16 * kib, 256 * kib, 4 * mib}) {
            const rule& r = plan.choose(what, bytes);
            simulation_cache cache(h);
            const double scaled = simulate(h, r, what, bytes, {.cache = &cache}).time;
            const double own = simulate(h, r, what, bytes).time;
            EXPECT_NEAR(scaled, own, 0.02 * own) << to_string(what) << " of " << bytes;
            EXPECT_EQ(cache.programs.size(), 1U) << "of chunks and of the last one";
            EXPECT_EQ(simulate(h, r, what, bytes, {.cache = &cache}).time, scaled) << "found again";
        }
}

// For long calls only the first chunks are simulated. The rest is assumed to proceed like the second half of these.
TEST(trials, of_long_calls_go_on_as_they_began) {
    const hierarchy h = two_racks();
    pricer prices(h);
    const auto all = search(prices, collective::allgather);
    const auto by_levels = std::ranges::find(all, 3U, [](const priced_candidate& c) { return c.what.stages.size(); });
    ASSERT_NE(by_levels, all.end());
    trials tried(h);
    tried.begin_size();
    const auto found = tried.time(*by_levels, {.lanes = 4, .chunk = 64 * kib}, 16 * mib);
    ASSERT_TRUE(found);
    rule how = rule_of(by_levels->what.stages);
    how.lanes = 4, how.chunk = 64 * kib;
    const double whole = simulate(h, how, collective::allgather, 16 * mib).time;
    EXPECT_NEAR(*found, whole, 0.02 * whole);
}

// The work of a simulation depends on the messages that share links, not on the number of all messages.
TEST(trials, are_over_when_too_much_has_been_shared) {
    hierarchy h = free_network(tree({{3, 4, 4}, {3}}));
    h.levels = {link("l0", fabric::infiniband, 6763.222e6, 4.03e-6, 0.5e-6),
                link("l1", fabric::infiniband, 39595.493e6, 1.291e-6, 0.5e-6)};
    pricer prices(h);
    const auto all = search(prices, collective::allreduce);
    const auto direct = std::find_if(all.begin(), all.end(), [](const priced_candidate& c) {
        return c.what.stages.size() == 1 && c.what.stages.front().algorithm == "direct" &&
               c.what.stages.front().how == mode::scatter;
    });
    ASSERT_NE(direct, all.end());
    trials tried(h);
    tried.begin_size();
    int simulated = 0;
    while (tried.time(*direct, {.lanes = 3, .chunk = 160 * kib}, 400 * kib + simulated * kib)) ++simulated;
    EXPECT_GE(simulated, 1);
    EXPECT_LT(simulated, 80) << "of 660 messages each";
}

TEST(simulate, refuses_what_would_take_for_ever) {
    const auto runs = [](int ranks, std::int64_t chunk, std::int64_t bytes) {
        rule r = rule_of({{{0}, ranks, mode::scatter, "ring"}});
        r.chunk = chunk;
        simulate(free_network(tree::uniform(std::vector{ranks})), r, collective::allreduce, bytes);
    };
    constexpr std::int64_t gib = 1024 * mib;
    EXPECT_NO_THROW(runs(2, mib, gib));
    EXPECT_THROW(runs(20'000, 0, mib), plan_error);
    EXPECT_THROW(runs(2, mib, 4096 * gib), plan_error) << "chunks";
    EXPECT_THROW(runs(2, 0, 4096 * gib), plan_error) << "segments";
    EXPECT_THROW(runs(1, mib, 9'000'000'000'000'000'000), plan_error) << "chunks without instructions";
}
}  // namespace
}  // namespace terrace::detail::test::simulate_test
