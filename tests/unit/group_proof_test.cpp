// Proofs by groups: they accept what whole proofs accept, and refuse compositions that are wrong.

#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "schedule/exchange.hpp"
#include "schedule/group_proof.hpp"
#include "schedule/lower.hpp"
#include "schedule/registry.hpp"
#include "schedule/verify.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::group_proof_test {
namespace {

hierarchy machine(tree shape) {
    hierarchy h;
    for (int l = 0; l < shape.depth(); ++l)
        h.levels.push_back({.name = std::string(1, static_cast<char>('a' + l)),
                            .medium = l == 0 ? fabric::shm : fabric::ethernet,
                            .bandwidth = 1e9,
                            .latency = 1e-6,
                            .overhead = 1e-6});
    h.shape = std::move(shape);
    return h;
}

std::vector<hierarchy> machines() {
    return {machine(tree::uniform(std::vector{4})), machine(tree::uniform(std::vector{3, 2, 2})),
            machine(tree({{4, 2, 3, 3, 1}, {2, 3}, {2}}))};
}

std::vector<stage> scattered(const hierarchy& h, const char* by) {
    std::vector<stage> stages;
    for (int l = 0; l < h.depth(); ++l) stages.push_back({{l}, h.shape.uniform_size(l).value_or(0), mode::scatter, by});
    return stages;
}

TEST(group_proof, accepts_all_candidates) {
    for (const hierarchy& h : machines())
        for (const collective what : all_collectives)
            for (const candidate& c : candidates(h, what))
                for (const int count : {0, 1, h.ranks() - 1, 5 * h.ranks() + 3}) {
                    group_proof proof;
                    const std::vector<std::int64_t> blocks(static_cast<std::size_t>(h.ranks()), count);
                    const auto fault =
                        row_of(what).exchange ? proof.find_exchange_fault(compose_exchange(h, c.stages, what))
                        : row_of(what).blocks
                            ? proof.find_fault(compose_blocks(h, c.stages, blocks))
                            : proof.find_fault(compose(h, c.stages, count, 1, row_of(what).has_root() ? 0 : -1));
                    EXPECT_FALSE(fault) << describe(h, c.stages) << ": " << *fault;
                }
}

TEST(group_proof, proves_every_kind_of_group_once) {
    const hierarchy h = machine(tree::uniform(std::vector{4, 4, 4}));
    group_proof proof;
    EXPECT_FALSE(proof.find_fault(compose(h, scattered(h, "ring"), 64, 1)));
    EXPECT_EQ(proof.kinds(), 1U);
    EXPECT_FALSE(proof.find_fault(compose(h, scattered(h, "halving"), 64, 1)));
    EXPECT_EQ(proof.kinds(), 2U);
}

void set_members(composition& c, std::size_t stage, std::size_t number, std::vector<int> members) {
    group& g = c.stages[stage].groups[number];
    g = group(std::move(members), g.shards(), g.root(), g.ordinal());
}

void set_member(composition& c, std::size_t stage, std::size_t number, std::size_t position, int rank) {
    std::vector<int> members = c.stages[stage].groups[number].members();
    members[position] = rank;
    set_members(c, stage, number, std::move(members));
}

template <class F>
void set_shards(composition& c, std::size_t stage, std::size_t number, F change) {
    group& g = c.stages[stage].groups[number];
    std::vector<range> shards = g.shards();
    change(shards);
    g = g.with_shards(std::move(shards));
}

// Each change makes a rank's contribution count twice or not at all, or end in a place that no rank uses.
TEST(group_proof, refuses_compositions_that_are_wrong) {
    const hierarchy h = machine(tree({{4, 2}, {2}}));
    const composition right = compose(h, scattered(h, "ring"), 24, 1);
    const std::vector<void (*)(composition&)> changes{
        [](composition& c) {
            set_member(c, 1, 0, 0, c.stages[1].groups[1].members()[0]);
            set_member(c, 1, 1, 0, 0);
        },
        [](composition& c) {
            const std::vector<int> members = c.stages[1].groups[0].members();
            set_member(c, 1, 0, 0, members[1]);
            set_member(c, 1, 0, 1, members[0]);
        },
        [](composition& c) { set_member(c, 0, 0, 1, c.stages[0].groups[0].members()[2]); },
        [](composition& c) { set_shards(c, 1, 0, [](std::vector<range>& s) { s.back().end -= 1; }); },
        [](composition& c) { set_shards(c, 1, 0, [](std::vector<range>& s) { s[1].begin += 1; }); },
        [](composition& c) { c.stages[1].groups.pop_back(); },
        [](composition& c) { c.stages[1].groups.push_back(c.stages[1].groups.front()); },
        [](composition& c) { c.stages[1].how = mode::root; },
        [](composition& c) { std::swap(c.owners[0].owners, c.owners[1].owners); },
        [](composition& c) { c.owners.pop_back(); },
    };
    group_proof proof;
    EXPECT_FALSE(proof.find_fault(right));
    for (std::size_t i = 0; i < changes.size(); ++i) {
        composition wrong = right;
        changes[i](wrong);
        EXPECT_TRUE(proof.find_fault(wrong)) << "change " << i;
    }
    const std::vector<std::int64_t> counts(6, 4);
    block_layout blocks = compose_blocks(h, scattered(h, "ring"), counts);
    EXPECT_FALSE(proof.find_fault(blocks));
    std::swap(blocks.blocks[1], blocks.blocks[3]);
    EXPECT_TRUE(proof.find_fault(blocks));
}

// Each route sums the ranks' contributions in another order.
TEST(group_proof, follows_routes) {
    const hierarchy h = test::torus_of({2, 3, 2}, 2);
    std::vector<stage> stages = scattered(h, "biring");
    stages[1].route_share = 2;
    stages[2].route_share = 1;
    const composition right = compose(h, stages, 240, 1);
    ASSERT_EQ(right.routes.size(), 2U);
    group_proof proof;
    EXPECT_FALSE(proof.find_fault(right));
    const std::vector<void (*)(composition&)> changes{
        [](composition& c) { std::swap(c.routes[0], c.routes[1]); },
        [](composition& c) { std::swap(c.routes[1][0], c.routes[1][1]); },
        [](composition& c) { c.routes.pop_back(); },
        [](composition& c) { c.stages[1].route = 2; },
        [](composition& c) { c.stages[4].groups.pop_back(); },
        [](composition& c) { set_members(c, 3, 0, c.stages[3].groups[1].members()); },
        [](composition& c) { c.owners[0].route = 3 - c.owners[0].route; },
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
        composition wrong = right;
        changes[i](wrong);
        EXPECT_TRUE(proof.find_fault(wrong)) << "change " << i;
    }
    const std::vector<std::int64_t> counts(12, 5);
    block_layout blocks = compose_blocks(h, stages, counts);
    EXPECT_FALSE(proof.find_fault(blocks));
    std::swap(blocks.blocks[1], blocks.blocks[3]);
    EXPECT_TRUE(proof.find_fault(blocks));
}

// A wrong algorithm: a ring without its last step.
void short_ring(builder& out, const group& g) {
    for (int step = 0; step < g.size() - 2; ++step) {
        out.next_step();
        out.send(g.next(), g.shard(g.position() - step - 1));
        out.recv_reduce(g.prev(), g.shard(g.position() - step - 2));
    }
}

TEST(group_proof, refuses_groups_that_are_wrong) {
    const hierarchy h = machine(tree::uniform(std::vector{4, 2}));
    algorithm broken = *find_algorithm("ring");
    broken.name = "short ring";
    broken.reduce_scatter = short_ring;
    composition c = compose(h, scattered(h, "ring"), 64, 1);
    c.stages[0].by = &broken;
    group_proof proof;
    const auto fault = proof.find_fault(c);
    ASSERT_TRUE(fault);
    EXPECT_NE(fault->find("short ring over 4 ranks"), std::string::npos) << *fault;
}

// Reduces only one half of each shard, and so is right for shards of one element, which are the other half.
template <int Half>
void half_ring(builder& out, const group& g) {
    for (int step = 0; step < g.size() - 1; ++step) {
        out.next_step();
        out.send(g.next(), partition(g.shard(g.position() - step - 1), 2, Half));
        out.recv_reduce(g.prev(), partition(g.shard(g.position() - step - 2), 2, Half));
    }
}

TEST(group_proof, proves_every_part_that_an_algorithm_cuts) {
    const hierarchy h = machine(tree::uniform(std::vector{4, 2}));
    composition c = compose(h, scattered(h, "biring"), 64, 1);
    algorithm broken = *find_algorithm("biring");
    c.stages[0].by = &broken;
    EXPECT_FALSE(group_proof().find_fault(c));
    for (const auto half : {half_ring<0>, half_ring<1>}) {
        broken.reduce_scatter = half;
        EXPECT_TRUE(group_proof().find_fault(c));
    }
}

}  // namespace
}  // namespace terrace::detail::group_proof_test
