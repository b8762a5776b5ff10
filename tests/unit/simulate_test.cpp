// The simulation against what can be said without it: closed forms, conserved bytes, fair shares.

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "planner/available.hpp"
#include "planner/planner.hpp"
#include "planner/pricer.hpp"
#include "planner/simulate/flows.hpp"
#include "planner/simulate/simulate.hpp"
#include "planner/trials.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::simulate_test {
namespace {

constexpr std::int64_t kib = 1024, mib = 1 << 20;

using test::link;

// Processors that cost nothing.
hierarchy network(tree shape, double overhead = 0) {
    hierarchy h;
    for (int l = 0; l < shape.depth(); ++l)
        h.levels.push_back(link(fmt::format("l{}", l), fabric::ethernet, 1e9 / (1 + l), 10e-6 * (1 + l), overhead));
    h.shape = std::move(shape);
    h.processors.reduction = 1e18;
    return h;
}

rule rule_of(std::vector<stage> stages) {
    rule r;
    r.stages = std::move(stages);
    return r;
}

// ---- one stage, in closed form --------------------------------------------------------------------------------------

TEST(simulate, one_stage_takes_what_the_formula_says) {
    const double alpha = 10e-6, beta = 1e-9;
    for (const int p : {2, 3, 8}) {
        const hierarchy h = network(tree::uniform(std::vector{p}));
        const std::int64_t bytes = p * 16 * kib;
        const auto n = static_cast<double>(bytes), q = static_cast<double>(p);
        const auto time = [&](mode how, const char* by) {
            return simulate(h, rule_of({{{0}, p, how, by}}), collective::allreduce, bytes).time;
        };
        EXPECT_NEAR(time(mode::scatter, "ring"), 2 * (q - 1) * (alpha + n / q * beta), 1e-9) << p;
        EXPECT_NEAR(time(mode::scatter, "direct"), 2 * (alpha + (q - 1) / q * n * beta), 1e-9) << p;
        if (p != 8) continue;
        EXPECT_NEAR(time(mode::replicate, "doubling"), 3 * (alpha + n * beta), 1e-9);
    }
}

TEST(simulate, overhead_keeps_processors_busy) {
    const hierarchy h = network(tree::uniform(std::vector{5}), 3e-6);
    const simulation s = simulate(h, rule_of({{{0}, 5, mode::scatter, "direct"}}), collective::allreduce, 5 * 64);
    for (const double busy : s.processors) EXPECT_NEAR(busy, 2 * 4 * 3e-6, 1e-12);
    EXPECT_EQ(s.messages, 2 * 5 * 4);
}

// Each end of a message takes one of them; with a core of its own a rank sends and receives at once. Who waits has its
// core back when the others have had a turn.
TEST(simulate, cores_that_all_ranks_share_do_one_thing_after_another) {
    hierarchy h = network(tree::uniform(std::vector{6}), 3e-6);
    const rule direct = rule_of({{{0}, 6, mode::replicate, "direct"}});
    const double apart = simulate(h, direct, collective::allreduce, 8).time;
    const double messages = 60 * 3e-6;
    for (const int cores : {1, 2, 3}) {
        h.processors.cores = cores;
        const double shared = simulate(h, direct, collective::allreduce, 8).time;
        const double turn = (6.0 / cores - 1) * 3e-6;
        EXPECT_GE(shared, messages / cores * (1 - 1e-9)) << cores;
        EXPECT_LE(shared, messages / cores + 10e-6 + turn + 3e-6) << cores;
    }
    h.processors.cores = 6;  // enough
    EXPECT_EQ(simulate(h, direct, collective::allreduce, 8).time, apart);
}

// A byte is read and written at each end, and read twice and written once where it is added.
TEST(simulate, what_a_rank_copies_and_adds_up_is_done_by_one_core) {
    hierarchy h;
    h.levels = {link("node", fabric::shm, 1e15, 0, 0)};
    h.shape = tree::uniform(std::vector{2});
    h.processors.reduction = 10e9;
    const double access = 1 / (3 * h.processors.reduction);
    const simulation s = simulate(h, rule_of({{{0}, 2, mode::replicate, "direct"}}), collective::allreduce, mib);
    EXPECT_NEAR(s.time, (2 + 2 + 3) * mib * access, 1e-3 * s.time);
}

// ---- links ----------------------------------------------------------------------------------------------------------

// When each of the flows (from, to, bytes), all begun at once, is through.
std::vector<double> ends(const hierarchy& h, const std::vector<std::tuple<int, int, double>>& begun) {
    link_loads loads(h);
    flows f(loads);
    std::vector<double> end(begun.size()), due(begun.size());
    for (const auto& [from, to, bytes] : begun) f.begin(f.add(from, to), bytes, 0);
    double now = 0;
    for (std::size_t left = begun.size(); left > 0; --left) {
        f.share(
            now, [&](int flow, double when) { due[static_cast<std::size_t>(flow)] = when; }, [](auto...) {});
        std::size_t next = begun.size();
        for (std::size_t i = 0; i < begun.size(); ++i)
            if (end[i] == 0 && (next == begun.size() || due[i] < due[next])) next = i;
        now = end[next] = due[next];
        f.end(static_cast<int>(next), now);
    }
    return end;
}

TEST(flows, share_a_link_and_take_what_others_leave) {
    // Nodes of 2 ranks; 1 GB/s to each rank, 0.5 GB/s to each node.
    const hierarchy h = network(tree::uniform(std::vector{2, 3}));
    EXPECT_EQ(ends(h, {{0, 2, 1e6}}), (std::vector{2e-3}));
    // Two out of a node: half each, and all of it when the short one is through.
    const auto two = ends(h, {{0, 2, 1e6}, {1, 4, 0.5e6}});
    EXPECT_NEAR(two[1], 2e-3, 1e-12);
    EXPECT_NEAR(two[0], 3e-3, 1e-12);
    // Rank 2 gets from its neighbour what the network leaves of its link: 1 - 0.5.
    const auto mixed = ends(h, {{0, 2, 1e6}, {3, 2, 1e6}});
    EXPECT_NEAR(mixed[0], 2e-3, 1e-12);
    EXPECT_NEAR(mixed[1], 2e-3, 1e-12);
    // Three into node 1, two of them out of node 0; a fourth out of node 2 takes what these leave there: 0.5 - 1/6.
    const auto four = ends(h, {{0, 2, 1e6}, {1, 3, 1e6}, {4, 2, 1e6}, {5, 0, 1e6}});
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(four[static_cast<std::size_t>(i)], 6e-3, 1e-12);
    EXPECT_NEAR(four[3], 3e-3, 1e-12);
}

// A bucket that was full at first passes once for nothing, and fills again while its link is idle: here for the
// start-up of the way back.
TEST(simulate, shapers_let_bursts_pass) {
    const double burst = 128 * kib, alpha = 10e-6, rate = 1e9;
    const auto time = [&](fabric f, std::int64_t bytes, double bucket) {
        hierarchy h = network(tree::uniform(std::vector{2}));
        h.levels[0].medium = f;
        return simulate(h, rule_of({{{0}, 2, mode::scatter, "direct"}}), collective::allreduce, bytes,
                        {.burst = bucket})
            .time;
    };
    for (const std::int64_t bytes : {mib, 16 * mib}) {
        const double n = static_cast<double>(bytes);
        EXPECT_NEAR(time(fabric::ethernet, bytes, 0), 2 * alpha + n / rate, 1e-9);
        EXPECT_NEAR(time(fabric::ethernet, bytes, burst), alpha + (n - burst) / rate, 1e-8) << bytes;
        EXPECT_EQ(time(fabric::pcie, bytes, burst), time(fabric::pcie, bytes, 0)) << "nothing shapes what is in a node";
    }
}

// Two flows leave through one bucket, which is empty when both have drawn it; then they share the link as ever.
TEST(flows, share_a_bucket) {
    const hierarchy h = network(tree::uniform(std::vector{2, 2}));  // 0.5 GB/s to each node
    link_loads loads(h);
    flows f(loads, 1e6);
    f.begin(f.add(0, 2), 2e6, 0);
    f.begin(f.add(1, 3), 2e6, 0);
    const double empty = 1e6 / (15 * 0.5e9);
    std::vector<std::pair<int, std::uint32_t>> emptied;  // the link out of one node and that into the other
    f.share(
        0, [](auto...) {},
        [&](int link, double when, std::uint32_t version) {
            EXPECT_GE(when, empty * (1 - 1e-12));
            if (when < empty * (1 + 1e-12)) emptied.emplace_back(link, version);
        });
    ASSERT_EQ(emptied.size(), 2u);
    for (const auto& [link, version] : emptied) f.run_out(link, version);
    std::vector<double> due(2);
    f.share(
        empty, [&](int flow, double when) { due[static_cast<std::size_t>(flow)] = when; }, [](auto...) {});
    for (const double end : due) EXPECT_NEAR(end, (4e6 - 1e6) / 0.5e9, 1e-9);
}

bool in_memory(const stage& s) { return s.provider == provider::shared_memory; }

// On uniform machines the same bytes pass the busiest link of each level as the prices say, whatever the stages are.
TEST(simulate, moves_the_bytes_that_are_predicted) {
    int compared = 0;
    test::dice d(4711);
    for (const int ranks : {1, 2, 6, 8, 12, 16})
        for (const hierarchy& h : test::uniform_machines(ranks))
            for (const collective what : all_collectives) {
                rule r = rule_of(test::random_stages(h, what, d));
                if (!std::all_of(r.stages.begin(), r.stages.end(),
                                 [&](const stage& s) { return !in_memory(s) || available(h, s, *find_algorithm(s)); }))
                    continue;
                // In memory and in place, members share the work of an inner stage; no candidate has one.
                const auto replicates = [](const stage& s) { return s.how == mode::replicate && in_memory(s); };
                if (std::any_of(r.stages.begin(), r.stages.end() - 1, replicates)) continue;
                // Roots of what stages inside have scattered take turns there, of which prices know nothing. No
                // candidate has them.
                const auto takes_turns = [&](const stage& after) {
                    return after.how == mode::root && &after != &r.stages.front() && (&after - 1)->how != mode::root;
                };
                if (what == collective::allreduce && std::ranges::any_of(r.stages, takes_turns)) continue;
                // Rings through nodes are a baseline, in mode root where there is a root.
                const auto in_rings = [&](const stage& s) {
                    return has_root(what) && s.how == mode::scatter &&
                           find_algorithm(s)->graph == message_graph::node_rings;
                };
                if (std::any_of(r.stages.begin(), r.stages.end(), in_rings)) continue;
                const auto at_roots = [](const stage& s) { return s.how == mode::root; };
                r.lanes = 2;
                r.chunk = 64 * kib * h.ranks();
                const std::int64_t bytes = 4 * r.chunk;
                const simulation s = simulate(h, r, what, bytes);
                for (const link_cost& predicted : predict(h, r.stages, bytes, r.lanes, r.chunk, what).links) {
                    double most = 0;
                    for (const link_load& l : s.links)
                        if (l.row == predicted.row) most = std::max(most, l.bytes);
                    // Of all domains, the price of an exchange at their roots takes the most that any could carry.
                    if (exchanges(what) && std::ranges::any_of(r.stages, at_roots))
                        most = std::max(most, predicted.bytes);
                    EXPECT_NEAR(most, predicted.bytes, 0.02 * predicted.bytes + 1)
                        << test::text(h.shape) << ": " << to_string(what) << ", " << describe(h, r.stages) << ", level "
                        << predicted.row;
                    ++compared;
                }
            }
    EXPECT_GT(compared, 40);
}

// Nodes of 3 of 6 ranks are no nodes of the tree: half of what goes out of one is two partial results. Nodes of 4 are.
TEST(simulate, reproducible_reductions_move_partial_results) {
    for (const auto& [ranks, times] : {std::pair{3, 1.5}, {4, 1.0}}) {
        const hierarchy h = network(tree::uniform(std::vector{ranks, 2}));
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
    test::dice d(4711);
    for (const hierarchy& h : test::uneven_machines()) {
        rule r = rule_of(test::random_stages(h, collective::allreduce, d));
        r.lanes = 3;
        r.chunk = 64 * kib;
        const simulation s = simulate(h, r, collective::allreduce, mib);
        EXPECT_GE(s.time, limit(h, mib, collective::allreduce) * (1 - 1e-6)) << test::text(h.shape);
        for (const link_load& l : s.links) {
            EXPECT_LE(l.bytes, l.rate * s.time * (1 + 1e-6)) << test::text(h.shape);
            EXPECT_NEAR(std::accumulate(l.history.begin(), l.history.end(), 0.0), l.bytes, 1e-3 * l.bytes + 1);
            for (const float in_interval : l.history)
                EXPECT_LE(in_interval, l.rate * s.interval * 1.01) << test::text(h.shape);
        }
    }
}

// What stages in shared memory read, and the messages of other chunks, pass the links inside a node at the same time.
TEST(simulate, stages_in_memory_and_messages_share_links) {
    hierarchy h = network(tree::uniform(std::vector{4, 2}));
    h.levels[0] = link("node", fabric::shm, 1e9, 0.5e-6, 0);
    h.levels[1] = link("net", fabric::infiniband, 36e9, 9e-6, 0);
    rule r = rule_of({{{0}, 4, mode::scatter, "", provider::shared_memory}, {{1}, 2, mode::replicate, "direct"}});
    r.lanes = 2;
    r.chunk = 192 * kib;
    const double time = simulate(h, r, collective::allreduce, 16 * mib).time;
    EXPECT_GE(time, limit(h, 16 * mib, collective::allreduce));
    EXPECT_LE(time, 1.02 * limit(h, 16 * mib, collective::allreduce));
}

// A link is free again when its own bytes are through: stages of other lanes do not wait for the slow rank of this one.
TEST(simulate, stages_in_memory_hold_links_for_their_own_bytes) {
    hierarchy h = network(tree::uniform(std::vector{3, 3}));
    h.levels[0] = link("l0", fabric::shm, 1.94e9, 0.5e-6, 0);
    h.levels[1] = link("l1", fabric::shm, 24.7e9, 0.5e-6, 0);
    h.levels[0].rates.assign(9, 1.94e9);
    h.levels[0].rates.front() = 0.49e9;
    rule r = rule_of(
        {{{0}, 3, mode::root, "", provider::shared_memory}, {{1}, 3, mode::scatter, "", provider::shared_memory}});
    r.lanes = 2;
    r.chunk = 256 * kib;
    const double closed = predict(h, r.stages, 16 * mib, r.lanes, r.chunk).time;
    EXPECT_NEAR(simulate(h, r, collective::allreduce, 16 * mib).time, closed, 0.01 * closed);
}

// ---- whole calls ----------------------------------------------------------------------------------------------------

hierarchy small_cluster(tree shape) {
    hierarchy h;
    h.levels = {link("node", fabric::shm, 10e9, 0.5e-6, 0.3e-6), link("rack", fabric::ethernet, 125e6, 30e-6, 5e-6),
                link("core", fabric::ethernet, 62.5e6, 40e-6, 5e-6)};
    h.levels.resize(static_cast<std::size_t>(shape.depth()));
    h.shape = std::move(shape);
    return h;
}

// The closed form is made for stages that nothing disturbs: on uniform machines both agree.
TEST(simulate, agrees_with_the_closed_form) {
    for (const hierarchy& h :
         {small_cluster(tree::uniform(std::vector{4, 2})), small_cluster(tree::uniform(std::vector{3, 2, 2})),
          small_cluster(tree::uniform(std::vector{2, 4}))})
        for (const collective what : {collective::allreduce, collective::allgather, collective::broadcast})
            for (const std::int64_t bytes : {std::int64_t{64}, mib, 16 * mib}) {
                const rule r = make_plan("m", h).choose(what, bytes);
                const double closed = predict(h, r.stages, bytes, r.lanes, r.chunk, what).time;
                const double simulated = simulate(h, r, what, bytes).time;
                EXPECT_NEAR(simulated, closed, 0.06 * closed) << test::text(h.shape) << ": " << to_string(what)
                                                              << " of " << bytes << ", " << describe(h, r.stages);
                EXPECT_GE(simulated, limit(h, bytes, what) * (1 - 1e-6));
            }
}

// Ranks of an exchange that goes on from rank to rank do not get out of step (fenced_sends): what one sends early would
// hold up what others wait for.
TEST(simulate, halving_keeps_step) {
    for (const int nodes : {8, 12, 16})
        for (const int ranks : {1, 4}) {
            hierarchy h = network(tree::uniform(std::vector{ranks, nodes}));
            const rule r = rule_of({{{0}, ranks, mode::scatter, "direct"}, {{1}, nodes, mode::scatter, "halving"}});
            const double closed = predict(h, r.stages, 8 * mib, 1, 0).time;
            EXPECT_NEAR(simulate(h, r, collective::allreduce, 8 * mib).time, closed, 0.06 * closed)
                << ranks << " x " << nodes;
        }
}

// Whatever goes around a ring pays the long start-ups of few hops once each; or it waits in line before the slowest
// link.
TEST(simulate, rings_pay_each_hop_once) {
    hierarchy h = network(tree::uniform(std::vector{4, 3, 2}));
    h.levels[1].latency = 50e-6, h.levels[2].latency = 200e-6;
    const std::vector<stage> flat{{{0, 1, 2}, 24, mode::scatter, "ring"}};
    const double lap = 18 * 10e-6 + 4 * 50e-6 + 2 * 200e-6 - 10e-6;
    EXPECT_NEAR(predict(h, flat, 24, 1, 0, collective::allreduce).time, 2 * lap, 1e-6);
    const double large = 2 * (200e-6 + 23 / 24.0 * 240 * mib * 3e-9);
    EXPECT_NEAR(predict(h, flat, 240 * mib, 1, 0, collective::allreduce).time, large, 1e-6);
    for (const std::int64_t bytes : {24 * kib, 240 * kib, 960 * kib, 24 * mib}) {
        const double simulated = simulate(h, rule_of(flat), collective::allreduce, bytes).time;
        EXPECT_NEAR(predict(h, flat, bytes, 1, 0, collective::allreduce).time, simulated, 0.06 * simulated) << bytes;
    }
}

// Twelve ranks on two cores, as tools/vcluster emulates them.
TEST(simulate, agrees_where_cores_are_shared) {
    hierarchy h{{link("node", fabric::shm, 1.1e9, 3e-6, 1.4e-6), link("rack", fabric::ethernet, 119e6, 0, 18e-6),
                 link("core", fabric::ethernet, 119e6, 0, 25e-6)},
                tree::uniform(std::vector{2, 2, 3})};
    h.processors.cores = 2;
    const std::vector<stage> flat{{{0, 1, 2}, 12, mode::scatter, "ring"}};
    const std::vector<stage> staged{{{0}, 2, mode::root, "", provider::shared_memory},
                                    {{1, 2}, 6, mode::scatter, "ring"}};
    for (const std::vector<stage>& stages : {flat, staged})
        for (const std::int64_t bytes : {128 * kib, 512 * kib, 2 * mib}) {
            const double simulated = simulate(h, rule_of(stages), collective::allreduce, bytes).time;
            EXPECT_NEAR(predict(h, stages, bytes, 1, 0, collective::allreduce).time, simulated, 0.1 * simulated)
                << describe(h, stages) << ", " << bytes;
        }
}

// Nodes of 3, 5 and 4 cut what they have differently, but each rank has one block.
TEST(simulate, unequal_siblings_exchange_no_more_pieces_than_blocks) {
    const hierarchy h{
        {link("node", fabric::shm, 50e9, 0.3e-6, 0.2e-6), link("net", fabric::ethernet, 8e9, 19e-6, 10e-6)},
        tree({{3, 5, 4}, {3}})};
    const std::vector<stage> stages{{{0}, 0, mode::scatter, "", provider::shared_memory},
                                    {{1}, 3, mode::scatter, "direct"}};
    for (const collective what : {collective::reduce_scatter, collective::allgather}) {
        const double simulated = simulate(h, rule_of(stages), what, 16 * kib).time;
        EXPECT_NEAR(predict(h, stages, 16 * kib, 1, 0, what).time, simulated, 0.06 * simulated) << to_string(what);
    }
}

TEST(simulate, says_what_every_chunk_did) {
    const hierarchy h = small_cluster(tree::uniform(std::vector{4, 2}));
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

// Ranks have slots of one length for all rules of a plan.
TEST(simulate, slices_as_the_runtime_does) {
    const hierarchy h = small_cluster(tree::uniform(std::vector{4, 2}));
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
    longer.stages.front().algorithm = "ring";  // takes no slot
    EXPECT_EQ(slot_bytes(std::vector{longer}), 64 * kib);
}

TEST(simulate, says_the_same_again) {
    const hierarchy h = small_cluster(tree({{4, 2, 3, 3, 1}, {2, 3}, {2}}));
    const rule r = make_plan("m", h).choose(collective::allreduce, 4 * mib);
    const simulation a = simulate(h, r, collective::allreduce, 4 * mib);
    const simulation b = simulate(h, r, collective::allreduce, 4 * mib);
    EXPECT_EQ(a.time, b.time);
    EXPECT_EQ(a.spans.size(), b.spans.size());
}

TEST(simulate, several_sizes_are_as_each_alone) {
    const hierarchy h = small_cluster(tree({{4, 2, 3}, {3}}));
    rule r = make_plan("m", h).choose(collective::allreduce, 4 * mib);
    r.lanes = 2;
    r.chunk = 256 * kib;
    const std::vector<std::int64_t> sizes{2 * mib, mib, 100 * kib};
    const std::vector<simulation> all = simulate(h, r, collective::allreduce, sizes, {.counts_loads = false});
    ASSERT_EQ(all.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i)
        EXPECT_EQ(all[i].time, simulate(h, r, collective::allreduce, sizes[i]).time) << sizes[i];
    EXPECT_EQ(all.front().links.front().bytes, 0) << "not counted";
}

// What a simulation takes depends on how many messages share links, not on how many there are.
TEST(trials, are_over_when_too_much_has_been_shared) {
    hierarchy h = network(tree({{5, 7, 7, 7, 3, 6}, {6}}));
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
    int simulated = 0;
    while (tried.time(*direct, 3, 160 * kib, 400 * kib + simulated * kib)) ++simulated;
    EXPECT_GT(simulated, 1);
    EXPECT_LT(simulated, 20) << "of 7,140 messages each";
}

TEST(simulate, refuses_what_would_take_for_ever) {
    const auto runs = [](int ranks, std::int64_t chunk, std::int64_t bytes) {
        rule r = rule_of({{{0}, ranks, mode::scatter, "ring"}});
        r.chunk = chunk;
        simulate(network(tree::uniform(std::vector{ranks})), r, collective::allreduce, bytes);
    };
    constexpr std::int64_t gib = 1024 * mib;
    EXPECT_NO_THROW(runs(2, mib, gib));
    EXPECT_THROW(runs(20'000, 0, mib), plan_error);
    EXPECT_THROW(runs(2, mib, 4096 * gib), plan_error) << "chunks";
    EXPECT_THROW(runs(2, 0, 4096 * gib), plan_error) << "segments";
    EXPECT_THROW(runs(1, mib, 9'000'000'000'000'000'000), plan_error) << "chunks without instructions";
}

}  // namespace
}  // namespace terrace::detail::simulate_test
