// The cost model against closed forms, and what a plan promises.

#include <limits>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/cost.hpp"
#include "planner/planner.hpp"
#include "planner/simulate/simulate.hpp"
#include "schedule/compose.hpp"
#include "schedule/lower.hpp"
#include "schedule/verify.hpp"
#include "support/cuts.hpp"
#include "support/shapes.hpp"

namespace terrace {
namespace {

using test::link;

const std::vector<level> three_levels{link("node", fabric::shm, 10e9, 0.5e-6, 0.3e-6),
                                      link("rack", fabric::ethernet, 125e6, 30e-6, 5e-6),
                                      link("core", fabric::ethernet, 62.5e6, 40e-6, 5e-6)};

hierarchy machine(tree shape) {
    hierarchy h;
    h.levels.assign(three_levels.begin(), three_levels.begin() + shape.depth());
    h.shape = std::move(shape);
    return h;
}

hierarchy two_nodes() { return machine(tree::uniform(std::vector{4, 2})); }
hierarchy two_racks() { return machine(tree::uniform(std::vector{3, 2, 2})); }
hierarchy uneven() { return machine(tree({{4, 2, 3, 3, 1}, {2, 3}, {2}})); }
hierarchy network(int ranks) {
    return {{link("net", fabric::ethernet, 1e9, 10e-6, 2e-6)}, tree::uniform(std::vector{ranks})};
}

hierarchy pairs_of_pairs(int levels) {
    hierarchy h{{}, tree::uniform(std::vector(static_cast<std::size_t>(levels), 2)), 1e18};
    for (int l = 0; l < levels; ++l)
        h.levels.push_back(link(fmt::format("l{}", l), fabric::infiniband, 1e9, 2e-6, 1e-6));
    return h;
}

constexpr std::int64_t kib = 1 << 10, mib = 1 << 20;

std::vector<hierarchy> machines() {
    return {two_nodes(),
            two_racks(),
            uneven(),
            network(1),
            network(7),
            machine(tree::uniform(std::vector{1, 1})),
            machine(tree::uniform(std::vector{1, 4, 2})),
            machine(tree::uniform(std::vector{2, 8, 3})),
            machine(tree({{3, 3, 1}, {3}})),
            machine(tree({{2, 2, 1, 3, 1}, {3, 2}, {2}}))};
}

// ---- limit ----------------------------------------------------------------------------------------------------------

TEST(limit, is_what_the_slowest_level_demands) {
    EXPECT_DOUBLE_EQ(limit(two_nodes(), 32 * mib), 32.0 * mib / 125e6);
    EXPECT_DOUBLE_EQ(limit(two_racks(), 32 * mib), 32.0 * mib / 62.5e6);
    EXPECT_DOUBLE_EQ(limit(network(8), 8 * mib), 2 * 7.0 / 8 * 8 * mib / 1e9);
    EXPECT_EQ(limit(network(1), mib), 0);
    // Five nodes at 125 MB/s against two racks at 62.5: the racks.
    EXPECT_DOUBLE_EQ(limit(uneven(), mib), mib / 62.5e6);
}

TEST(limit, depends_on_the_collective) {
    for (const hierarchy& h : machines()) {
        if (!h.shape.uniform()) continue;
        const double both = limit(h, mib);
        EXPECT_DOUBLE_EQ(limit(h, mib, collective::reduce_scatter), both / 2);
        EXPECT_DOUBLE_EQ(limit(h, mib, collective::allgather), both / 2);
    }
    // Of unequal nodes the one sends all its blocks, or receives all others.
    for (const collective what : {collective::reduce_scatter, collective::allgather}) {
        const hierarchy four_and_two = machine(tree({{4, 2}, {2}})), all_but_one = machine(tree({{3, 3, 1}, {3}}));
        EXPECT_DOUBLE_EQ(limit(four_and_two, mib, what), 4.0 / 6 * mib / 125e6);
        EXPECT_DOUBLE_EQ(limit(all_but_one, mib, what), 6.0 / 7 * mib / 125e6);
        const ranked best = rank_candidates(four_and_two, 64 * mib, what).front();
        EXPECT_LT(best.how.predicted, 1.02 * best.how.limit) << describe(four_and_two, best.what.stages);
    }
    for (const collective what : {collective::broadcast, collective::reduce}) {
        EXPECT_DOUBLE_EQ(limit(network(8), mib, what), mib / 1e9);
        EXPECT_DOUBLE_EQ(limit(two_racks(), mib, what), mib / 62.5e6);
        EXPECT_EQ(limit(network(1), mib, what), 0);
    }
}

TEST(limit, takes_other_rates_and_free_bytes) {
    const auto rate = [](int) { return 1e8; };
    EXPECT_DOUBLE_EQ(limit(network(2), 1'000'000, rate, 0), 0.01);
    EXPECT_DOUBLE_EQ(limit(network(2), 1'000'000, rate, 500'000), 0.005);
    EXPECT_EQ(limit(network(2), 1'000, rate, 500'000), 0);
}

// On trees it is the bound that all sets of ranks give on any graph: one link is as bad as any set of links.
TEST(limit, of_allgather_is_the_worst_cut) {
    std::vector<hierarchy> list = machines();
    for (const int ranks : {2, 3, 6, 8})
        for (hierarchy& h : test::uniform_machines(ranks)) list.push_back(std::move(h));
    for (hierarchy& h : test::uneven_machines()) list.push_back(std::move(h));
    int compared = 0;
    for (const hierarchy& h : list) {
        const test::network_graph g = test::graph_of(h);
        if (g.vertices > 18 || g.ranks < 2) continue;
        EXPECT_DOUBLE_EQ(limit(h, mib, collective::allgather), test::allgather_bound(g, mib)) << test::text(h.shape);
        ++compared;
    }
    EXPECT_GE(compared, 20);
}

// Three nodes, the last with a slower link.
hierarchy unequal(double slow) {
    hierarchy h = machine(tree({{4, 4, 2}, {3}}));
    h.levels.back() = with_rates(h.levels.back(), {125e6, 125e6, slow});
    return h;
}

TEST(limit, of_unequal_links) {
    // All together: 4 vectors over the sum; one alone: a vector.
    EXPECT_DOUBLE_EQ(limit(unequal(62.5e6), mib), mib / 62.5e6);
    EXPECT_DOUBLE_EQ(limit(unequal(120e6), mib), 4.0 * mib / 370e6);
    EXPECT_DOUBLE_EQ(limit(unequal(62.5e6), mib, collective::broadcast), mib / 62.5e6);
    EXPECT_DOUBLE_EQ(limit(unequal(62.5e6), mib, collective::allgather), 0.8 * mib / 62.5e6);
    EXPECT_DOUBLE_EQ(test::allgather_bound(test::graph_of(unequal(62.5e6)), mib), 0.8 * mib / 62.5e6);
}

TEST(limit, cuts_of_other_graphs) {
    // A ring of four, both ways: a half of it holds two blocks, and two links leave it; one vertex, one block and two.
    test::network_graph ring{4, 4, {}};
    for (int i = 0; i < 4; ++i) {
        ring.links.push_back({i, wrap(i + 1, 4), 1e9});
        ring.links.push_back({i, wrap(i - 1, 4), 1e9});
    }
    EXPECT_DOUBLE_EQ(test::allgather_bound(ring, 4e9), 3.0 / 2);
    // The same in one direction: all but one vertex hold three blocks, and one link leaves them.
    std::erase_if(ring.links, [](const auto& l) { return l.to != wrap(l.from + 1, 4); });
    EXPECT_DOUBLE_EQ(test::allgather_bound(ring, 4e9), 3);
    // Two pairs with a thin link between them.
    const test::network_graph pairs{
        4, 4, {{0, 1, 9e9}, {1, 0, 9e9}, {2, 3, 9e9}, {3, 2, 9e9}, {1, 2, 1e9}, {2, 1, 1e9}}};
    EXPECT_DOUBLE_EQ(test::allgather_bound(pairs, 4e9), 2);
}

// ---- one stage ------------------------------------------------------------------------------------------------------

double one_stage(int ranks, mode how, std::string_view algorithm, std::int64_t bytes,
                 collective what = collective::allreduce) {
    return predict(network(ranks), {{{0}, ranks, how, std::string(algorithm)}}, bytes, 1, 0, what).time;
}

// Section 6: exchanges (alpha + o), and what goes through a link. 100 is beyond the size at which patterns are read off
// three positions alone.
TEST(predict, meets_the_closed_forms) {
    const double alpha = 10e-6, o = 2e-6, bytes = 48000, beta = 1e-9, gamma = reduce_time(network(2));
    for (const int p : {2, 3, 8, 100}) {
        const double share = (p - 1.0) / p * bytes;
        const double rounds = ceil_log2(p);
        EXPECT_NEAR(one_stage(p, mode::scatter, "ring", 48000), 2 * (p - 1) * (alpha + o) + share * (2 * beta + gamma),
                    1e-9);
        EXPECT_NEAR(one_stage(p, mode::scatter, "halving", 48000),
                    2 * rounds * (alpha + o) + share * (2 * beta + gamma), 1e-9);
        // All inputs at once: p are read and one is written, where a step of a ring reads two and writes one.
        EXPECT_NEAR(one_stage(p, mode::scatter, "direct", 48000),
                    2 * (alpha + (p - 1) * o) + share * 2 * beta + (p + 1) / 3.0 / p * bytes * gamma, 1e-9);
        EXPECT_NEAR(one_stage(p, mode::root, "tree", 48000), rounds * (2 * (alpha + o + bytes * beta) + bytes * gamma),
                    1e-9);
        EXPECT_NEAR(one_stage(p, mode::root, "direct", 48000),
                    2 * (alpha + (p - 1) * (o + bytes * beta)) + (p + 1) / 3.0 * bytes * gamma, 1e-9);
    }
    for (const int p : {2, 3, 8, 100}) {
        const double share = (p - 1.0) / p * bytes, hop = alpha + o + bytes * beta;
        const double copies = 2 * (1 + 1.0 / p) * bytes * gamma / 3;  // of blocks, there and back
        EXPECT_NEAR(one_stage(p, mode::root, "chain", 48000, collective::broadcast), (p - 1) * hop, 1e-9);
        EXPECT_NEAR(one_stage(p, mode::root, "chain", 48000, collective::reduce), (p - 1) * (hop + bytes * gamma),
                    1e-9);
        EXPECT_NEAR(one_stage(p, mode::scatter, "ring", 48000, collective::reduce_scatter),
                    (p - 1) * (alpha + o) + share * (beta + gamma) + copies, 1e-9);
        EXPECT_NEAR(one_stage(p, mode::scatter, "ring", 48000, collective::allgather),
                    (p - 1) * (alpha + o) + share * beta + copies, 1e-9);
        EXPECT_NEAR(one_stage(p, mode::root, "tree", 48000, collective::broadcast), ceil_log2(p) * hop, 1e-9);
    }
    EXPECT_NEAR(one_stage(8, mode::replicate, "doubling", 48000), 3 * (alpha + o + bytes * (beta + gamma)), 1e-9);
}

// Flags instead of messages, and bytes read and written instead of links: 24 GB/s.
// BlueConnect's cost of stages that follow one another: twice the sum of (p_i - 1) start-ups and (p_i - 1)/p_i of N/q_i
// bytes, q_i = p_0 ... p_(i-1), at the rate that is left to a rank. As the paper expands its sum that is the least of
// U_j/q_j for j <= i; its compact form (Eq. 9) has j < i, and so leaves out the links of the stage itself.
double paper_time(const hierarchy& h, double bytes, bool compact) {
    double time = 0, q = 1, rate = std::numeric_limits<double>::infinity();
    for (int l = 0; l < h.depth(); ++l) {
        const level& of = h.levels[static_cast<std::size_t>(l)];
        const double p = *h.shape.uniform_size(l), own = std::min(rate, of.bandwidth / q);
        time += 2 * ((p - 1) * (of.latency + of.overhead) + (p - 1) / p * bytes / q / (compact ? rate : own));
        rate = own;
        q *= p;
    }
    return time;
}

TEST(predict, stages_one_after_the_other_cost_what_the_paper_expands) {
    const auto with_rates = [](std::vector<double> rates) {
        hierarchy h{{}, tree::uniform(std::vector{4, 3, 2}), 1e18};
        for (const double rate : rates)
            h.levels.push_back(link(fmt::format("l{}", h.levels.size()), fabric::infiniband, rate, 2e-6, 1e-6));
        return h;
    };
    for (const hierarchy& h : {with_rates({10e9, 2e9, 1e9}), with_rates({1e9, 8e9, 100e9}), with_rates({1e9, 1e9, 1e9}),
                               with_rates({3e9, 20e9, 5e9})}) {
        const std::int64_t bytes = 24 * 4096;  // no message is cut
        const double priced =
            predict(h,
                    {{{0}, 4, mode::scatter, "ring"}, {{1}, 3, mode::scatter, "ring"}, {{2}, 2, mode::scatter, "ring"}},
                    bytes, 1, 0)
                .time;
        EXPECT_NEAR(priced, paper_time(h, bytes, false), 1e-3 * priced);
        // Without the stage's own links the first stage costs nothing but start-ups.
        EXPECT_LT(paper_time(h, bytes, true), paper_time(h, bytes, false));
    }
}

TEST(predict, native_stages_stream_through_memory) {
    const double flag = 0.5e-6 / 3, access = reduce_time(two_nodes()) / 3, bytes = 48000;
    for (const int p : {2, 3, 4}) {
        const hierarchy node = machine(tree::uniform(std::vector{p}));
        const auto time = [&](mode how, collective what) {
            return predict(node, {{{0}, p, how, "native"}}, 48000, 1, 0, what).time;
        };
        const double whole = 2 * bytes * access, in = whole * (p - 1) / p, out = whole;
        const double shard = (p + 1) * bytes / p * access;
        const double link = bytes / 10e9, most = link * (p - 1) / p;
        // Blocks are copied to where peers reach them, and back.
        EXPECT_NEAR(time(mode::scatter, collective::reduce_scatter),
                    2 * flag + whole * (1 + 1.0 / p) + std::max(shard, most), 1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::allgather), flag + whole * (1 + 1.0 / p) + std::max(in, most),
                    1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::allreduce), 3 * flag + in + shard + std::max(out, most), 1e-9);
        EXPECT_NEAR(time(mode::replicate, collective::allreduce),
                    flag + std::max(whole + p * bytes * access, (p - 1) * link), 1e-9);
        EXPECT_NEAR(time(mode::root, collective::reduce), flag + std::max((p + 1) * bytes * access, (p - 1) * link),
                    1e-9);
        EXPECT_NEAR(time(mode::root, collective::broadcast), flag + whole + std::max(whole, link), 1e-9);
    }
}

TEST(predict, counts_wire_segments) {
    const double whole = one_stage(2, mode::replicate, "direct", 480 << 10);
    const double bytes = 480 << 10, gamma = reduce_time(network(2));
    EXPECT_NEAR(whole, 10e-6 + 10 * 2e-6 + bytes * (1e-9 + gamma), 1e-9);
}

// Six ranks of which each sends a message to every other, or one pair that exchanges one after another.
TEST(predict, cores_that_all_ranks_share_are_busy_with_the_messages_of_all) {
    const auto time = [](int ranks, const char* by, int cores) {
        hierarchy h = network(ranks);
        h.processors = {1e18, cores};
        return predict(h, {{{0}, ranks, mode::replicate, by}}, 8, 1, 0).time;
    };
    const double alpha = 10e-6, o = 2e-6;
    EXPECT_NEAR(time(6, "direct", 0), alpha + 5 * o, 1e-7);
    EXPECT_NEAR(time(6, "direct", 6), alpha + 5 * o, 1e-7);
    EXPECT_NEAR(time(6, "direct", 2), alpha + 2 * o + 60 * o / 2, 1e-7);
    EXPECT_NEAR(time(6, "direct", 1), alpha + 5 * o + 60 * o, 1e-7);
    EXPECT_NEAR(time(2, "direct", 2), alpha + o, 1e-7);
    EXPECT_NEAR(time(4, "doubling", 1), 2 * (alpha + 3 * o) + 16 * o, 1e-7);
}

// Two nodes of two ranks on one core, of which each waits three times for a turn of the three others: for its peer in
// memory on the way up and down, and for the other node. A turn takes what a message does.
TEST(predict, who_waits_on_shared_cores_waits_for_the_turns_of_others) {
    hierarchy h = machine(tree::uniform(std::vector{2, 2}));
    for (level& l : h.levels) l.overhead = 0;
    h.levels[0].medium = fabric::shm;
    h.levels[1].overhead = 2e-6;
    const std::vector<stage> stages{{{0}, 2, mode::root, "native"}, {{1}, 2, mode::replicate, "direct"}};
    const auto time = [&](int cores) {
        h.processors = {1e18, cores};
        return predict(h, stages, 8, 1, 0).time;
    };
    const double messages = 4 * 2e-6 - 2e-6;  // of all ranks, where a rank with a core of its own exchanges one
    EXPECT_NEAR(time(1) - time(0), 3 * 3 * 2e-6 + messages, 1e-7);
}

// In lanes a chunk ends as often as the shared cores have done one.
TEST(predict, shared_cores_hold_lanes_up) {
    hierarchy h = network(4);
    const std::vector<stage> ring{{{0}, 4, mode::scatter, "ring"}};
    const double apart = predict(h, ring, 64 * mib, 2, 64 << 10).time;
    h.levels[0].overhead = 200e-6;
    h.processors.cores = 1;
    const double chunks = 1024, messages = 2 * 4 * 6;
    EXPECT_GT(predict(h, ring, 64 * mib, 2, 64 << 10).time, chunks * messages * 200e-6);
    EXPECT_LT(apart, chunks * messages * 200e-6);
}

TEST(predict, nothing_costs_nothing) {
    EXPECT_EQ(one_stage(1, mode::scatter, "ring", mib), 0);
    EXPECT_EQ(one_stage(4, mode::scatter, "ring", 0), 0);
}

// ---- several stages -------------------------------------------------------------------------------------------------

// Bytes through one node's uplink: flat ring 2 (P-1)/P N, staged 2 (n-1)/n N.
TEST(predict, charges_every_link_that_is_crossed) {
    const double bytes = 8 * mib;
    const auto through = [&](const std::vector<stage>& stages) {
        std::vector<double> result;
        for (const link_cost& l : predict(two_racks(), stages, 8 * mib, 1, 0).links) result.push_back(l.bytes / bytes);
        return result;
    };
    const std::vector<double> ring = through(baseline(two_racks(), "flat-ring").stages);
    for (const double link : ring) EXPECT_NEAR(link, 2 * 11.0 / 12, 1e-6);
    const std::vector<double> staged =
        through({{{0}, 3, mode::scatter, "ring"}, {{1}, 2, mode::scatter, "ring"}, {{2}, 2, mode::scatter, "ring"}});
    EXPECT_NEAR(staged[0], 2 * 11.0 / 12, 1e-6);
    EXPECT_NEAR(staged[1], 2 * 3.0 / 4, 1e-6);
    EXPECT_NEAR(staged[2], 2 * 1.0 / 2, 1e-6);
}

// Racks of equal shape are looked at once. What the sampled ranks miss is small.
TEST(predict, samples_speak_for_all_ranks) {
    std::vector<int> nodes(12 + 12 + 12 + 11 + 12, 4);
    nodes[17] = 3;
    for (const hierarchy& h : {machine(tree::uniform(std::vector{4, 6, 5})),
                               machine(tree({nodes, {12, 12, 12, 11, 12}, {5}})), pairs_of_pairs(7)}) {
        const sampler few(h, 0), all(h, h.ranks());
        EXPECT_LT(few.ranks().size(), all.ranks().size() * 3 / 4);
        EXPECT_EQ(all.ranks().size(), static_cast<std::size_t>(h.ranks()));
        double ranks = 0;
        for (const double w : few.weights()) ranks += w;
        EXPECT_EQ(ranks, h.ranks());
        pricer sampled(h, few), exact(h, all);
        for (const collective what : all_collectives)
            for (const candidate& c : candidates(h, what)) {
                const price one = sampled.price_stages(c.stages, what), other = exact.price_stages(c.stages, what);
                for (const double bytes : {8.0, 1e4, 1e6, 1e8})
                    EXPECT_NEAR(one.time(bytes, 2, 1 << 18), other.time(bytes, 2, 1 << 18),
                                other.time(bytes, 2, 1 << 18) * 0.12)
                        << to_string(what) << ' ' << describe(h, c.stages);
            }
    }
}

// Nodes of a torus have links of their own, which what goes around does not take; siblings of unequal size own unequal
// parts.
TEST(predict, is_nowhere_below_the_limit) {
    std::vector<hierarchy> all = machines();
    all.push_back(
        hierarchy{{link("node", fabric::shm, 2e9, 1e-6, 1e-7), link("x", fabric::infiniband, 56e9, 1e-6, 1e-7),
                   link("y", fabric::infiniband, 84e9, 1e-6, 1e-7)},
                  tree::uniform(std::vector{2, 6, 2})});
    all.back().levels[1].ring = all.back().levels[2].ring = true;
    all.push_back(hierarchy{{link("node", fabric::shm, 30e9, 5e-7, 1e-7), link("box", fabric::bus, 1e9, 1e-6, 1e-7)},
                            tree({{6, 4, 2}, {3}})});
    for (hierarchy& h : all) {
        h.processors.reduction = 1e15;
        pricer prices(h);
        for (const collective what : all_collectives)
            for (const candidate& c : candidates(h, what)) {
                const price cost = prices.price_stages(c.stages, what);
                for (const std::int64_t bytes : {1 * mib, 64 * mib})
                    for (const auto& [lanes, chunk] : {std::pair<int, std::int64_t>{1, 0}, {3, 256 * kib}})
                        EXPECT_GE(cost.time(static_cast<double>(bytes), lanes, chunk), limit(h, bytes, what) * 0.999)
                            << describe(h, c.stages) << ' ' << to_string(what) << ' ' << bytes << ' ' << chunk;
            }
    }
}

TEST(predict, pipelining_approaches_the_busiest_link) {
    const std::vector<stage> stages{
        {{0}, 3, mode::scatter, "direct"}, {{1}, 2, mode::scatter, "ring"}, {{2}, 2, mode::scatter, "ring"}};
    const double floor = limit(two_racks(), 32 * mib);
    const double sequential = predict(two_racks(), stages, 32 * mib, 1, 0).time;
    const double pipelined = predict(two_racks(), stages, 32 * mib, 2, 288 << 10).time;
    EXPECT_GT(sequential, 1.5 * floor);
    EXPECT_LT(pipelined, 1.01 * floor);
    EXPECT_GT(pipelined, floor);
    // One lane gains nothing by chunks.
    EXPECT_GE(predict(two_racks(), stages, 32 * mib, 1, 288 << 10).time, sequential);
}

TEST(predict, never_beats_the_limit) {
    for (const hierarchy& h : machines())
        for (const collective what : all_collectives)
            for (const ranked& c : rank_candidates(h, 64 * mib, what))
                EXPECT_GE(c.how.predicted, limit(h, 64 * mib, what) * (1 - 1e-9)) << describe(h, c.what.stages);
}

TEST(predict, every_collective_reaches_its_limit) {
    for (const hierarchy& h : {two_nodes(), two_racks()})
        for (const collective what : all_collectives)
            EXPECT_LT(rank_candidates(h, 32 * mib, what).front().how.predicted, 1.01 * limit(h, 32 * mib, what))
                << to_string(what);
}

// Measured on the virtual cluster (docs/performance.md): 281, 564 and 518 ms (that of a flat ring), at 95.65 % of the
// rate.
TEST(predict, agrees_with_what_was_measured) {
    constexpr double goodput = 1448.0 / 1514;
    const auto best = [](const hierarchy& h) { return rank_candidates(h, 32 * mib).front().how.predicted; };
    EXPECT_NEAR(best(two_nodes()) / goodput, 0.281, 0.281 * 0.03);
    EXPECT_NEAR(best(two_racks()) / goodput, 0.564, 0.564 * 0.03);
    hierarchy h = machine(tree::uniform(std::vector{2, 2, 3}));
    h.levels[2].bandwidth = 125e6;
    EXPECT_NEAR(tuned(h, baseline(h, "flat-ring"), 32 * mib).predicted / goodput, 0.518, 0.518 * 0.03);
}

// ---- candidates -----------------------------------------------------------------------------------------------------

TEST(candidates, are_different_and_include_the_baselines) {
    for (const hierarchy& h : machines()) {
        const std::vector<candidate> all = candidates(h);
        EXPECT_EQ(all[0].origin, "flat-ring");
        EXPECT_EQ(all[1].origin, "two-level");
        EXPECT_EQ(all[2].origin, "central");
        std::set<std::string> seen;
        for (std::size_t i = 3; i < all.size(); ++i) {
            EXPECT_TRUE(seen.insert(describe(h, all[i].stages)).second) << describe(h, all[i].stages);
        }
    }
}

// Natively where ranks share memory; GPUs do not.
TEST(candidates, are_native_inside_nodes_of_processors_only) {
    std::set<mode> modes;
    for (const hierarchy& h : machines())
        for (const candidate& c : candidates(h))
            for (const stage& s : c.stages) {
                if (s.algorithm != "native") continue;
                modes.insert(s.how);
                EXPECT_EQ(s.levels, std::vector{0}) << describe(h, c.stages);
            }
    EXPECT_EQ(modes.size(), 2U);  // replicate in a node would stand below other stages
    for (const fabric inner : {fabric::nvlink, fabric::pcie}) {
        const hierarchy gpus{{link("pair", inner, 20e9, 2e-6, 1e-6), link("node", fabric::bus, 16e9, 1e-6, 0.3e-6)},
                             tree::uniform(std::vector{2, 2})};
        for (const candidate& c : candidates(gpus))
            for (const stage& s : c.stages) EXPECT_NE(s.algorithm, "native");
    }
    const hierarchy sockets{
        {link("numa", fabric::shm, 10e9, 0.5e-6, 0.3e-6), link("node", fabric::bus, 16e9, 1e-6, 0.3e-6)},
        tree::uniform(std::vector{4, 2})};
    for (const auto& [what, rules] : make_plan("x", sockets).rules) {
        if (what == collective::reduce) continue;  // one rank that reads all others is slower than a pipeline
        for (const rule& r : rules)
            for (const stage& s : r.stages) EXPECT_EQ(s.algorithm, "native") << to_string(what) << ' ' << r.at;
    }
}

namespace {

// Nodes of 8 GPUs over NVLink, and a network of which NCCL and MPI may take different times.
hierarchy gpu_nodes(int nodes, std::optional<device_rates> nccl, std::optional<device_rates> mpi) {
    hierarchy h{{link("node", fabric::nvlink, 450e9, 2e-6, 1e-6), link("pod", fabric::ethernet, 10e9, 20e-6, 1e-6)},
                tree::uniform(std::vector{8, nodes})};
    h.processors.reduction = 10e12;
    h.levels[0].nccl = device_rates{.stage = 12e-6, .step = 10e-6, .bandwidth = 400e9};
    h.levels[1].nccl = nccl;
    h.levels[1].mpi = mpi;
    return h;
}

}  // namespace

// NCCL's own collective has one start-up and the time of its busiest link, and what it reduces it does meanwhile.
TEST(predict, between_gpus_what_nccl_and_mpi_take) {
    hierarchy h = gpu_nodes(1, {}, {});
    h.levels.pop_back();
    h.shape = tree::uniform(std::vector{8});
    constexpr double bytes = 64 * mib;
    const auto time = [&](mode how, const char* by, collective what = collective::allreduce) {
        return predict(h, {{{0}, 8, how, by}}, static_cast<std::int64_t>(bytes), 1, 0, what).time;
    };
    const double round = 7.0 / 8 * bytes / 400e9;
    EXPECT_NEAR(time(mode::scatter, "native"), 2 * (12e-6 + round), 1e-9);
    EXPECT_NEAR(time(mode::replicate, "native"), 12e-6 + 2 * round, 1e-9);
    EXPECT_NEAR(time(mode::root, "native", collective::broadcast), 12e-6 + bytes / 400e9, 1e-9);
    // Messages pay for each step, and reduce after it.
    EXPECT_GT(time(mode::scatter, "ring"), 2 * (7 * 10e-6 + round));
    EXPECT_LT(time(mode::scatter, "ring"), 2 * (7 * 11e-6 + round) + bytes / 10e12);
    // Over MPI.
    h.levels[0].mpi = device_rates{.step = 30e-6, .bandwidth = 10e9};
    std::vector<stage> over_mpi{{{0}, 8, mode::scatter, "direct"}};
    over_mpi[0].over = carrier::mpi;
    const prediction p = predict(h, over_mpi, 8 << 10, 1, 0);
    EXPECT_NEAR(p.stages[0].latency, 2 * 30e-6, 1e-12);
    EXPECT_NEAR(p.links[0].time, 2 * 7.0 / 8 * (8 << 10) / 10e9, 1e-12);
    EXPECT_NEAR(p.links[0].bytes, 2 * 7.0 / 8 * (8 << 10), 1e-6);
}

TEST(plan, gives_each_stage_between_gpus_to_what_is_faster_there) {
    const device_rates sockets{.stage = 90e-6, .step = 60e-6, .bandwidth = 3e9};
    const device_rates verbs{.stage = 25e-6, .step = 22e-6, .bandwidth = 10e9};
    const device_rates mpi{.step = 25e-6, .bandwidth = 9e9};
    const auto outermost = [](const hierarchy& h, std::int64_t bytes) {
        return make_plan("x", h).choose(collective::allreduce, bytes).stages;
    };
    for (const std::int64_t bytes : {8 * kib, 64 * mib}) {
        const std::vector<stage> slow = outermost(gpu_nodes(4, sockets, mpi), bytes);
        EXPECT_EQ(slow.front().algorithm, "native");
        EXPECT_EQ(slow.front().over, carrier::nccl);
        EXPECT_EQ(slow.back().over, carrier::mpi) << bytes;
        const std::vector<stage> fast = outermost(gpu_nodes(4, verbs, mpi), bytes);
        EXPECT_EQ(fast.back().over, carrier::nccl) << bytes;
        EXPECT_EQ(fast.front().algorithm, "native");
        // What the file does not speak of is left alone.
        for (const stage& s : outermost(gpu_nodes(4, verbs, {}), bytes)) EXPECT_EQ(s.over, carrier::nccl);
    }
    // NCCL's own stages only where it knows the groups beforehand.
    hierarchy uneven = gpu_nodes(2, verbs, mpi);
    uneven.shape = tree({{8, 6}, {2}});
    for (const candidate& c : candidates(uneven))
        for (const stage& s : c.stages) EXPECT_NE(s.algorithm, "native");
}

TEST(candidates, merge_split_and_reorder_levels) {
    const hierarchy h = machine(tree::uniform(std::vector{3, 8, 2}));
    std::set<std::vector<int>> groups;
    for (const candidate& c : candidates(h)) {
        std::vector<int> sizes;
        for (const stage& s : c.stages) sizes.push_back(s.group);
        groups.insert(sizes);
    }
    for (const std::vector<int>& wanted : {std::vector{3, 8, 2}, {24, 2}, {3, 16}, {48}, {3, 2, 4, 2}, {3, 4, 2, 2}})
        EXPECT_TRUE(groups.contains(wanted)) << ::testing::PrintToString(wanted);
}

TEST(candidates, all_compute_the_right_result) {
    for (const hierarchy& h : machines())
        for (const candidate& c : candidates(h)) {
            const std::int64_t count = 2 * h.ranks() + 3;
            std::vector<schedule> programs = generate_all(compose(h, c.stages, count, 1), collective::allreduce);
            for (schedule& s : programs) s = lower(s, {});
            const auto fault = find_fault(programs);
            EXPECT_FALSE(fault) << describe(h, c.stages) << ": " << *fault;
        }
}

TEST(candidates, have_the_collectives_mode) {
    for (const hierarchy& h : machines())
        for (const collective what : all_collectives)
            for (const candidate& c : candidates(h, what))
                for (const stage& s : c.stages) EXPECT_TRUE(can(s.how, what)) << describe(h, c.stages);
}

// Many chunks follow one another through it.
TEST(candidates, of_roots_include_chains_over_merged_levels) {
    for (const collective what : {collective::broadcast, collective::reduce}) {
        std::set<std::string> all;
        for (const candidate& c : candidates(two_racks(), what)) all.insert(describe(two_racks(), c.stages));
        for (const char* wanted : {"node+rack+core:12 root chain", "node:3 root chain > rack+core:4 root chain",
                                   "node+rack:6 root chain > core:2 root direct"})
            EXPECT_TRUE(all.contains(wanted)) << ::testing::PrintToString(all);
    }
}

// Levels that join nothing get no stage of their own.
TEST(candidates, leave_out_levels_of_one_child) {
    const hierarchy h = machine(tree::uniform(std::vector{1, 4, 2}));
    for (const candidate& c : candidates(h)) {
        if (c.origin != "staged" && c.origin != "mixed") continue;
        for (const stage& s : c.stages) EXPECT_GT(s.group, 1) << describe(h, c.stages);
    }
}

TEST(candidates, are_native_though_a_level_outside_joins_nothing) {
    const hierarchy h{{link("node", fabric::shm, 1e10, 5e-7, 1e-7), link("net", fabric::ethernet, 1e9, 14e-6, 1e-7)},
                      tree::uniform(std::vector{8, 1})};
    const rule best = make_plan("one", h).rules.at(collective::allreduce).back();
    ASSERT_EQ(best.stages.size(), 1u);
    EXPECT_EQ(best.stages[0].algorithm, "native");
    const hierarchy inside{{h.levels[0]}, tree::uniform(std::vector{8})};
    EXPECT_EQ(predict(h, best.stages, mib, 1, 0).time,
              predict(inside, {{{0}, 8, mode::scatter, "native"}}, mib, 1, 0).time);
}

// Ways to group levels double with each level, and so do their ranks: machines of many take what is worth most.
TEST(candidates, of_many_levels_are_not_too_many) {
    const hierarchy h = pairs_of_pairs(12);
    EXPECT_LT(sampler(h).ranks().size(), 100u);
    const std::vector<candidate> all = candidates(h);
    EXPECT_LT(all.size(), 4000u);
    for (const std::size_t stages : {1u, 2u, 12u})
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const candidate& c) {
            return c.origin == "staged" && c.stages.size() == stages;
        })) << stages;
}

// All ways to run a collective without splitting levels: every grouping of levels, every mode and every algorithm.
class everything {
public:
    everything(const hierarchy& h, collective what) : machine_(h), what_(what) { extend(0); }

    const std::vector<std::vector<stage>>& stages() const { return found_; }

private:
    void extend(int first) {
        if (first == machine_.depth()) {
            found_.push_back(current_);
            for (std::vector<stage>& turns : test::turns_of(machine_, current_, 2)) found_.push_back(std::move(turns));
            return;
        }
        std::vector<int> levels;
        for (int last = first; last < machine_.depth(); ++last) {
            levels.push_back(last);
            for (const mode how : {mode::scatter, mode::root, mode::replicate}) {
                if (!can(how, what_) || (how == mode::replicate && last + 1 < machine_.depth())) continue;
                for (const algorithm& a : algorithms()) {
                    stage s{levels, group_of(levels), how, std::string(a.name)};
                    if (!available(machine_, s, a)) continue;
                    current_.push_back(std::move(s));
                    extend(last + 1);
                    current_.pop_back();
                }
            }
        }
    }

    int group_of(const std::vector<int>& levels) const {
        std::set<int> sizes;
        for (int d = 0; d < machine_.shape.domains(levels.back()); ++d) {
            int first = d, end = d + 1;
            for (auto l = levels.rbegin(); l != levels.rend(); ++l) {
                first = machine_.shape.first_child(*l, first);
                end = machine_.shape.first_child(*l, end);
            }
            sizes.insert(end - first);
        }
        return sizes.size() == 1 ? *sizes.begin() : 0;
    }

    const hierarchy& machine_;
    collective what_;
    std::vector<stage> current_;
    std::vector<std::vector<stage>> found_;
};

// Who has a slow link gets less of the vector: equal parts would take 4/3 of the limit.
TEST(candidates, weigh_unequal_links) {
    const hierarchy h = unequal(62.5e6);
    const recipe plan = make_plan("m", h);
    const rule& chosen = plan.choose(collective::allreduce, 32 * mib);
    EXPECT_EQ(chosen.stages.back().weights, (std::vector{1, 1, 0}));
    rule equal = chosen;
    equal.stages.back().weights.clear();
    const auto time = [&](const rule& r) { return predict(h, r.stages, 32 * mib, r.lanes, r.chunk).time; };
    EXPECT_LT(time(chosen), limit(h, 32 * mib) / 0.97);
    EXPECT_GT(time(equal), limit(h, 32 * mib) / 0.76);
    EXPECT_EQ(parse_plan(plan.text, "m.yaml").choose(collective::allreduce, 32 * mib).stages, chosen.stages);

    // And the result is right, for counts that leave some with nothing too.
    for (const std::int64_t count : {0, 1, 9, 10, 1000}) {
        std::vector<schedule> programs;
        for (schedule& s : generate_all(compose(h, chosen.stages, count, 16), collective::allreduce))
            programs.push_back(lower(std::move(s), {}));
        EXPECT_EQ(find_fault(programs), std::nullopt) << count;
    }
    // Weights are of the outermost stage, one for each sibling.
    const auto refused = [&](std::vector<stage> stages) { EXPECT_THROW(stage_tree(h, stages), stage_error); };
    std::vector<stage> stages = chosen.stages;
    stages.back().weights = {1, 1};
    refused(stages);
    stages.back().weights = {0, 0, 0};
    refused(stages);
    stages = chosen.stages;
    stages.front().weights = {1, 1, 0};
    refused(stages);
}

TEST(candidates, contain_the_best_of_everything) {
    for (const hierarchy& h :
         {two_nodes(), two_racks(), uneven(), machine(tree({{2, 2, 1, 3, 1}, {3, 2}, {2}})), test::torus_of({4, 3}, 2)})
        for (const collective what : all_collectives) {
            const everything all(h, what);
            for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{4096}, std::int64_t{65536}, mib, 64 * mib}) {
                const ranked found = rank_candidates(h, bytes, what).front();
                for (const std::vector<stage>& stages : all.stages())
                    EXPECT_LE(found.how.predicted, tuned(h, {"", stages}, bytes, what).predicted * 1.01)
                        << to_string(what) << " of " << bytes << ": " << describe(h, stages) << " beats "
                        << describe(h, found.what.stages);
            }
        }
}

TEST(baseline, is_what_its_name_says) {
    EXPECT_EQ(describe(two_racks(), baseline(two_racks(), "flat-ring").stages), "node+rack+core:12 scatter ring");
    EXPECT_EQ(describe(two_racks(), baseline(two_racks(), "central").stages), "node+rack+core:12 root direct");
    const candidate two = baseline(two_racks(), "two-level");
    ASSERT_EQ(two.stages.size(), 2U);
    EXPECT_EQ(two.stages[0].how, mode::root);
    EXPECT_EQ(two.stages[0].levels, std::vector{0});
    EXPECT_EQ(two.stages[1].levels, (std::vector{1, 2}));
    EXPECT_EQ(two.stages[1].algorithm, "ring");
    EXPECT_EQ(baseline(network(4), "two-level").stages.size(), 1U);
}

TEST(baseline, exists_for_every_collective) {
    const auto text = [](const char* name, collective what) {
        return describe(two_racks(), baseline(two_racks(), name, what).stages);
    };
    for (const collective what : {collective::reduce_scatter, collective::allgather}) {
        EXPECT_EQ(text("flat-ring", what), "node+rack+core:12 scatter ring");
        EXPECT_EQ(text("two-level", what), "node:3 scatter native > rack+core:4 scatter ring");
        EXPECT_THROW(text("central", what), usage_error);
    }
    for (const collective what : {collective::broadcast, collective::reduce}) {
        EXPECT_EQ(baseline(two_racks(), "flat-ring", what).origin, "flat-chain");
        EXPECT_EQ(text("flat-ring", what), "node+rack+core:12 root chain");
        EXPECT_TRUE(text("two-level", what).ends_with(" > rack+core:4 root tree")) << text("two-level", what);
        EXPECT_EQ(text("central", what), "node+rack+core:12 root direct");
        EXPECT_THROW(rules_for(two_racks(), "staged", what), usage_error);
    }
}

// ---- lanes and chunk ------------------------------------------------------------------------------------------------

TEST(tuned, slices_large_messages_only) {
    for (const hierarchy& h : machines())
        for (const std::string_view name : {"flat-ring", "two-level", "central"})
            for (std::int64_t bytes = 8; bytes <= std::int64_t{1} << 30; bytes *= 4) {
                const rule r = tuned(h, baseline(h, name), bytes);
                EXPECT_LE(r.lanes, 3);
                EXPECT_EQ(r.lanes > 1, r.chunk > 0);
                EXPECT_EQ(r.chunk % 4096, 0);
                EXPECT_LT(r.chunk, bytes);
                EXPECT_TRUE(r.lanes == 1 || bytes > 64 << 10);
            }
}

// A chunk is in one or two places of a chain at a time, and leaves the lanes of the others free.
TEST(tuned, fills_long_chains) {
    const candidate chain = baseline(network(16), "flat-ring", collective::broadcast);
    const rule r = tuned(network(16), chain, 64 * mib, collective::broadcast);
    EXPECT_GT(r.lanes, 1);
    EXPECT_LE(r.lanes, 4);
    EXPECT_LT(r.predicted, 1.1 * r.limit);
}

// 48 KiB on the wire: times ranks per node, times nodes (docs/performance.md).
TEST(tuned, aims_at_good_wire_messages) {
    const candidate c{"staged", {{{0}, 4, mode::scatter, "direct"}, {{1}, 2, mode::scatter, "ring"}}};
    const rule r = tuned(two_nodes(), c, 32 * mib);
    EXPECT_EQ(r.lanes, 2);
    EXPECT_EQ(r.chunk, 48 * 1024 * 8);
}

// ---- plans ----------------------------------------------------------------------------------------------------------

const rule& rule_for(const std::vector<rule>& rules, std::int64_t bytes) {
    return *std::find_if(rules.begin(), rules.end(), [&](const rule& r) { return bytes <= r.up_to; });
}

double time_of(const hierarchy& h, const rule& r, std::int64_t bytes, collective what) {
    return predict(h, r.stages, bytes, r.lanes, r.chunk, what).time;
}

TEST(make_plan, is_never_predicted_slower_than_flat_ring_or_two_level) {
    for (const hierarchy& h : machines())
        for (const auto& [what, chosen] : make_plan("x", h).rules) {
            const auto ring = rules_for(h, "flat-ring", what), two = rules_for(h, "two-level", what);
            for (std::int64_t size = 8; size <= std::int64_t{1} << 30; size *= 2)
                for (const std::int64_t bytes : {size, size + 1, size * 3 / 2}) {
                    const rule& r = rule_for(chosen, bytes);
                    if (r.simulated > 0) continue;  // below
                    const double time = time_of(h, r, bytes, what) * (1 - 1e-9);
                    const std::string where =
                        fmt::format("{} of {} bytes on {}", to_string(what), bytes, shape_text(h.shape));
                    EXPECT_LE(time, time_of(h, rule_for(ring, bytes), bytes, what)) << where;
                    EXPECT_LE(time, time_of(h, rule_for(two, bytes), bytes, what)) << where;
                }
        }
}

// Racks whose links are no faster than their nodes': lanes in step with one another queue for them.
hierarchy three_racks() {
    return {{link("node", fabric::shm, 1.599e9, 1.5e-6, 6.2e-6), link("rack", fabric::ethernet, 119.6e6, 0, 35.2e-6),
             link("core", fabric::ethernet, 119.5e6, 0, 71.8e-6)},
            tree::uniform(std::vector{2, 2, 3})};
}

TEST(make_plan, is_never_simulated_slower_than_flat_ring_or_two_level) {
    int decided = 0;
    for (const hierarchy& h : {three_racks(), machine(tree({{4, 2, 3, 3, 1}, {2, 3}, {2}}))})
        for (const auto& [what, chosen] : make_plan("x", h).rules)
            for (const rule& r : chosen) {
                if (r.simulated == 0 || r.at > 2 * mib) continue;
                ++decided;
                const auto time = [&](const rule& how) { return simulate(h, how, what, r.at).time; };
                EXPECT_NEAR(r.simulated, time(r), 0.02 * time(r)) << to_string(what) << " of " << r.at;
                for (const char* name : {"flat-ring", "two-level"})
                    EXPECT_LE(r.simulated, time(rule_for(rules_for(h, name, what), r.at)) * 1.02)
                        << to_string(what) << " of " << r.at << ", " << name;
            }
    EXPECT_GE(decided, 2);
}

// Measured there: 7.7 ms for two-level, 9.4 for three lanes of 32 KiB through one stage by level, which has the best
// price.
TEST(make_plan, sees_lanes_that_queue_for_one_link) {
    const hierarchy h = three_racks();
    const std::vector<stage> by_level{
        {{0}, 2, mode::root, "native"}, {{1}, 2, mode::scatter, "ring"}, {{2}, 3, mode::scatter, "ring"}};
    const rule r = make_plan("x", h).choose(collective::allreduce, 512 * kib);
    const double price = predict(h, by_level, 512 * kib, 3, 32 * kib).time;
    const double simulated =
        simulate(h, {.lanes = 3, .chunk = 32 * kib, .stages = by_level}, collective::allreduce, 512 * kib).time;
    EXPECT_LT(price, predict(h, r.stages, 512 * kib, r.lanes, r.chunk).time);
    EXPECT_GT(simulated, 1.25 * price);
    EXPECT_LT(simulate(h, r, collective::allreduce, 512 * kib).time, 0.8 * simulated);
    EXPECT_GT(r.simulated, 0);
}

// A large call on 52 GPUs has too many messages to be tried by simulation.
TEST(make_plan, takes_more_lanes_where_it_cannot_try) {
    const hierarchy h{
        {link("node", fabric::bus, 16e9, 1e-6, 0.3e-6), link("rack", fabric::infiniband, 12.5e9, 2e-6, 0.5e-6)},
        tree::uniform(std::vector{4, 13})};
    rule how = make_plan("x", h).choose(collective::allreduce, 8 * mib);
    EXPECT_EQ(how.simulated, 0);
    const auto simulated = [&] { return simulate(h, how, collective::allreduce, 8 * mib).time; };
    const double more = simulated();
    EXPECT_LT(more, 1.1 * predict(h, how.stages, 8 * mib, how.lanes, how.chunk).time) << describe(h, how.stages);
    how.lanes = 2;
    EXPECT_GT(simulated(), 1.1 * more) << describe(h, how.stages);
}

TEST(make_plan, is_within_two_percent_of_the_best_candidate) {
    for (const hierarchy& h : machines())
        for (const auto& [what, chosen] : make_plan("x", h).rules)
            for (std::int64_t bytes = 8; bytes <= std::int64_t{1} << 30; bytes *= 8) {
                const rule& r = rule_for(chosen, bytes);
                if (r.simulated > 0) continue;
                EXPECT_LE(time_of(h, r, bytes, what),
                          rank_candidates(h, bytes, what).front().how.predicted * 1.02 * 1.01);
            }
}

TEST(make_plan, covers_all_sizes_in_few_rules) {
    for (const hierarchy& h : machines()) {
        const recipe r = make_plan("x", h);
        EXPECT_EQ(r.rules.size(), all_collectives.size());
        for (const auto& [what, rules] : r.rules) {
            EXPECT_LE(rules.size(), 15U) << to_string(what);
            EXPECT_EQ(rules.back().up_to, rule::no_bound);
            EXPECT_EQ(rules.back().at, std::int64_t{1} << 30);
            for (const rule& each : rules) EXPECT_LE(each.lanes, has_root(what) ? 16 : 4);
            for (std::size_t i = 1; i < rules.size(); ++i) {
                EXPECT_LT(rules[i - 1].up_to, rules[i].up_to);
                EXPECT_FALSE(rules[i - 1].stages == rules[i].stages && rules[i - 1].lanes == rules[i].lanes &&
                             rules[i - 1].chunk == rules[i].chunk);
            }
        }
    }
}

// Racks of 16 nodes of 128 ranks; one node is a rank short and one rack a node.
TEST(make_plan, takes_machines_of_many_ranks) {
    std::vector<int> nodes(8 * 4 * 16 - 1, 128), racks(8 * 4, 16);
    nodes[77] = 127;
    racks[21] = 15;
    hierarchy h = machine(tree({nodes, racks, {8 * 4}}));
    const recipe r = make_plan("x", h);
    for (const auto& [what, rules] : r.rules)
        EXPECT_TRUE(has_root(what) || rules.back().predicted < 1.2 * rules.back().limit) << to_string(what);
    EXPECT_EQ(parse_plan(r.text, "x").text, r.text);
}

TEST(make_plan, gives_the_same_bytes_again) {
    for (const hierarchy& h : machines()) {
        const recipe r = make_plan("x", h);
        EXPECT_EQ(make_plan("x", h).text, r.text);
        EXPECT_EQ(parse_plan(r.text, "x").text, r.text);
    }
}

TEST(rules_for, staged_only_scatters) {
    for (const rule& r : rules_for(two_racks(), "staged"))
        for (const stage& s : r.stages) EXPECT_EQ(s.how, mode::scatter);
}

}  // namespace
}  // namespace terrace
