// Simulations compared with closed forms: prices, formulas for one stage, and bytes on links.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "machine/rates.hpp"
#include "planner/available.hpp"
#include "planner/planner.hpp"
#include "planner/simulate/simulate.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::simulated_prices_test {
namespace {

TEST(simulate, one_stage_takes_what_the_formula_says) {
    const double alpha = 10e-6, beta = 1e-9, header = header_of(fabric::ethernet);
    for (const int p : {2, 3, 8}) {
        const hierarchy h = free_network(tree::uniform(std::vector{p}));
        const std::int64_t bytes = p * 16 * kib;
        const auto n = static_cast<double>(bytes), q = static_cast<double>(p);
        const auto time = [&](mode how, const char* by) {
            return simulate(h, rule_of({{{0}, p, how, by}}), collective::allreduce, bytes).time;
        };
        EXPECT_NEAR(time(mode::scatter, "ring"), 2 * (q - 1) * (alpha + (n / q + header) * beta), 1e-9) << p;
        EXPECT_NEAR(time(mode::scatter, "direct"), 2 * (alpha + (q - 1) * (n / q + header) * beta), 1e-9) << p;
        if (p != 8) continue;
        // Each message has three segments.
        EXPECT_NEAR(time(mode::replicate, "doubling"), 3 * (alpha + (n + 3 * header) * beta), 1e-9);
    }
}

bool in_memory(const stage& s) { return s.provider == provider::shared_memory; }

// On uniform machines, simulations and prices have the same bytes on the busiest link of each level, for any stages.
TEST(simulate, moves_the_bytes_that_are_predicted) {
    int compared = 0;
    dice d(4711);
    for (const int ranks : {1, 2, 6, 8, 12, 16})
        for (const hierarchy& h : uniform_machines(ranks))
            for (const collective what : all_collectives) {
                rule r = rule_of(random_stages(h, what, d));
                if (!std::all_of(r.stages.begin(), r.stages.end(),
                                 [&](const stage& s) { return !in_memory(s) || available(h, s, *find_algorithm(s)); }))
                    continue;
                // Members of an inner stage in mode replicate share its work in place. No candidate has such a stage.
                const auto replicates = [](const stage& s) { return s.how == mode::replicate && in_memory(s); };
                if (std::any_of(r.stages.begin(), r.stages.end() - 1, replicates)) continue;
                // In mode root after a stage in another mode, different ranks are roots in turn. Prices do not include
                // that, and no candidate has such stages.
                const auto takes_turns = [&](const stage& after) {
                    return after.how == mode::root && &after != &r.stages.front() && (&after - 1)->how != mode::root;
                };
                if (what == collective::allreduce && std::ranges::any_of(r.stages, takes_turns)) continue;
                // Rings through nodes are only a baseline. In collectives with a root they have mode root.
                const auto in_rings = [&](const stage& s) {
                    return row_of(what).has_root() && s.how == mode::scatter &&
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
                    // The price of an exchange at roots has the largest load that any domain could have.
                    if (row_of(what).exchange && std::ranges::any_of(r.stages, at_roots))
                        most = std::max(most, predicted.bytes);
                    EXPECT_NEAR(most, predicted.bytes, 0.02 * predicted.bytes + 1)
                        << text(h.shape) << ": " << to_string(what) << ", " << describe(h, r.stages) << ", level "
                        << predicted.row;
                    ++compared;
                }
            }
    EXPECT_GT(compared, 40);
}

// The closed form assumes stages without interference. On uniform machines both agree.
TEST(simulate, agrees_with_the_closed_form) {
    for (const hierarchy& h : {machine(tree::uniform(std::vector{4, 2})), machine(tree::uniform(std::vector{3, 2, 2})),
                               machine(tree::uniform(std::vector{2, 4}))})
        for (const collective what : {collective::allreduce, collective::allgather, collective::broadcast})
            for (const std::int64_t bytes : {std::int64_t{64}, mib, 16 * mib}) {
                const rule r = make_plan("m", h).choose(what, bytes);
                const double closed = predict(h, r.stages, bytes, r.lanes, r.chunk, what).time;
                const double simulated = simulate(h, r, what, bytes).time;
                EXPECT_NEAR(simulated, closed, 0.06 * closed)
                    << text(h.shape) << ": " << to_string(what) << " of " << bytes << ", " << describe(h, r.stages);
                EXPECT_GE(simulated, limit(h, bytes, what) * (1 - 1e-6));
            }
}

// Ranks that pass on received data remain in step (fenced_sends): without fences, early messages of one rank would
// delay messages that other ranks wait for.
TEST(simulate, halving_keeps_step) {
    for (const int nodes : {8, 12, 16})
        for (const int ranks : {1, 4}) {
            hierarchy h = free_network(tree::uniform(std::vector{ranks, nodes}));
            const rule r = rule_of({{{0}, ranks, mode::scatter, "direct"}, {{1}, nodes, mode::scatter, "halving"}});
            const double closed = predict(h, r.stages, 8 * mib, 1, 0).time;
            EXPECT_NEAR(simulate(h, r, collective::allreduce, 8 * mib).time, closed, 0.06 * closed)
                << ranks << " x " << nodes;
        }
}

// Data that go around a ring take the long start-ups of a few hops once each. Large data wait in line before the
// slowest link.
TEST(simulate, rings_pay_each_hop_once) {
    hierarchy h = free_network(tree::uniform(std::vector{4, 3, 2}));
    h.levels[1].latency = 50e-6, h.levels[2].latency = 200e-6;
    const std::vector<stage> flat{{{0, 1, 2}, 24, mode::scatter, "ring"}};
    const double header = header_of(fabric::ethernet) * 1e-9;
    const double lap = 18 * 10e-6 + 4 * 50e-6 + 2 * 200e-6 - 10e-6 + (18 + 4 * 2 + 2 * 3 - 1) * header;
    EXPECT_NEAR(predict(h, flat, 24, 1, 0, collective::allreduce).time, 2 * lap, 1e-6);
    const double large = 2 * (200e-6 + 23 / 24.0 * 240 * mib * 3e-9 + 23 * 3 * header);
    EXPECT_NEAR(predict(h, flat, 240 * mib, 1, 0, collective::allreduce).time, large, 1e-6);
    for (const std::int64_t bytes : {24 * kib, 240 * kib, 960 * kib, 24 * mib}) {
        const double simulated = simulate(h, rule_of(flat), collective::allreduce, bytes).time;
        EXPECT_NEAR(predict(h, flat, bytes, 1, 0, collective::allreduce).time, simulated, 0.06 * simulated) << bytes;
    }
}

// Nodes of 3, 5 and 4 ranks cut their data differently, but each rank has one block.
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

// A link is free once its own bytes have passed, so stages of other lanes do not wait for the slow rank of this one.
TEST(simulate, stages_in_memory_hold_links_for_their_own_bytes) {
    hierarchy h = free_network(tree::uniform(std::vector{3, 3}));
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
}  // namespace
}  // namespace terrace::detail::test::simulated_prices_test
