// Exchanges of blocks: messages between nodes and their steps, and refused stages.

#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/index.hpp"
#include "planner/planner.hpp"
#include "planner/policy.hpp"
#include "planner/pricer.hpp"
#include "planner/simulate/simulate.hpp"
#include "planner/tuning.hpp"
#include "schedule/call_schedule.hpp"
#include "schedule/exchange.hpp"
#include "schedule/group_proof.hpp"
#include "schedule/verify.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::exchange_test {
namespace {

using test::mib;

stage over(std::vector<int> levels, int group, mode how = mode::scatter) {
    return {std::move(levels), group, how, "direct"};
}

std::vector<schedule> programs_of(const hierarchy& machine, const std::vector<stage>& stages, std::int64_t count) {
    const collective_call call{
        .what = collective::alltoall, .count = count, .blocks = equal_blocks(machine.ranks(), count)};
    const call_layout layout(machine, stages, call);
    std::vector<schedule> all;
    for (int r = 0; r < machine.ranks(); ++r) all.push_back(layout.schedule_of(r));
    return all;
}

bool leaves_node(const hierarchy& machine, int a, int b) {
    const int level = machine.node_levels() - 1;
    return machine.shape.domain_of(level, a) != machine.shape.domain_of(level, b);
}

// Returns the number of messages between nodes, and the elements in all of them.
std::pair<int, std::int64_t> between_nodes(const hierarchy& machine, const std::vector<schedule>& all) {
    std::pair<int, std::int64_t> sum;
    for (const schedule& s : all)
        for (const instr& i : s.instrs)
            if (i.what == action::send && leaves_node(machine, s.rank, i.peer))
                ++sum.first, sum.second += i.src.part.count();
    return sum;
}

TEST(exchange, joins_blocks_for_a_far_node) {
    const hierarchy racks = test::three_racks();  // 3 x 2 nodes of 2 ranks
    const auto direct = programs_of(racks, {over({0, 1, 2}, 12)}, 4);
    const auto staged = programs_of(racks, {over({0}, 2), over({1, 2}, 6)}, 4);
    EXPECT_EQ(between_nodes(racks, direct), std::pair(120, std::int64_t{480}));
    EXPECT_EQ(between_nodes(racks, staged), std::pair(60, std::int64_t{480}));
    const auto by_level = programs_of(racks, {over({0}, 2), over({1}, 2), over({2}, 3)}, 4);
    EXPECT_EQ(between_nodes(racks, by_level).first, 36);
    const hierarchy nodes = test::two_nodes();
    EXPECT_EQ(between_nodes(nodes, programs_of(nodes, {over({0}, 4), over({1}, 2)}, 4)).first, 8);
    EXPECT_EQ(between_nodes(nodes, programs_of(nodes, {over({0, 1}, 8)}, 4)).first, 32);
}

TEST(exchange, one_rank_sends_for_its_node) {
    const hierarchy racks = test::three_racks();  // 3 x 2 nodes of 2 ranks
    const auto of_nodes = programs_of(racks, {over({0}, 2, mode::root), over({1, 2}, 6)}, 4);
    EXPECT_EQ(between_nodes(racks, of_nodes), std::pair(30, std::int64_t{480}));
    // Each node sends to the other node of its rack, and back, and each rack to each other rack.
    const auto of_racks = programs_of(racks, {over({0}, 2, mode::root), over({1}, 2, mode::root), over({2}, 3)}, 4);
    EXPECT_EQ(between_nodes(racks, of_racks).first, 12);
    for (const hierarchy& machine : {racks, test::uneven(), test::two_racks()}) {
        const auto group = [&](int l) { return machine.shape.uniform_size(l).value_or(0); };
        for (const mode inner : {mode::scatter, mode::root})
            for (const mode outer : {mode::scatter, mode::root}) {
                const auto all = programs_of(
                    machine, {over({0}, group(0), mode::root), over({1}, group(1), inner), over({2}, group(2), outer)},
                    4);
                EXPECT_EQ(find_fault(all, {.root = 0, .blocks = equal_blocks(machine.ranks(), 4)}), std::nullopt);
            }
    }
}

TEST(exchange, sends_straight_from_and_to_the_caller_in_one_stage) {
    for (const schedule& s : programs_of(test::two_racks(), {over({0, 1, 2}, 12)}, 4)) {
        EXPECT_EQ(s.scratch, 0);
        EXPECT_EQ(
            std::count_if(s.instrs.begin(), s.instrs.end(), [](const instr& i) { return i.what == action::copy; }), 1)
            << "rank " << s.rank;
    }
}

TEST(exchange, every_step_is_a_permutation_of_nodes) {
    for (const hierarchy& machine : {test::three_racks(), test::two_racks(), test::uneven()}) {
        std::vector<int> levels;
        for (int l = 0; l < machine.depth(); ++l) levels.push_back(l);
        std::map<int, std::map<int, std::set<int>>> to, from;  // nodes, by step and node
        const int level = machine.node_levels() - 1;
        for (const schedule& s : programs_of(machine, {over(levels, machine.ranks())}, 1))
            for (const instr& i : s.instrs) {
                if (i.what != action::send) continue;
                const int a = machine.shape.domain_of(level, s.rank), b = machine.shape.domain_of(level, i.peer);
                to[i.step][a].insert(b);
                from[i.step][b].insert(a);
            }
        for (const auto& step : {to, from})
            for (const auto& [number, nodes] : step)
                for (const auto& [node, others] : nodes) EXPECT_EQ(others.size(), 1u) << "step " << number;
    }
}

TEST(exchange, is_proved_by_groups_as_well) {
    for (const hierarchy& machine : test::machines()) {
        for (const candidate& c : candidates(machine, collective::alltoall)) {
            group_proof proof;
            EXPECT_EQ(proof.find_exchange_fault(compose_exchange(machine, c.stages)), std::nullopt)
                << describe(machine, c.stages);
        }
    }
}

TEST(exchange, group_proof_refuses_groups_that_lose_a_block) {
    const hierarchy racks = test::three_racks();
    block_layout b = compose_exchange(racks, std::vector{over({0}, 2), over({1, 2}, 6)});
    b.c.stages[1].groups.pop_back();
    group_proof proof;
    EXPECT_NE(proof.find_exchange_fault(b), std::nullopt);
    block_layout down = compose_exchange(racks, std::vector{over({0}, 2, mode::root), over({1, 2}, 6)});
    EXPECT_EQ(proof.find_exchange_fault(down), std::nullopt);
    std::swap(down.c.owners[0].owners, down.c.owners[2].owners);
    EXPECT_NE(proof.find_exchange_fault(down), std::nullopt);
}

TEST(exchange, refuses_stages_that_cannot) {
    stage ring = over({0}, 4), replicate = ring, memory = ring, shares = ring;
    ring.algorithm = "ring";
    replicate.how = mode::replicate;
    memory.algorithm = "", memory.provider = provider::shared_memory;
    shares.shares = {1, 1};
    const auto fault = [](const stage& s) {
        return fault_of_exchange(std::vector{s}).value_or(std::pair(-1, "")).second;
    };
    EXPECT_EQ(fault(over({0}, 4)), "");
    EXPECT_EQ(fault(ring), "ring cannot exchange blocks; these algorithms can: direct");
    EXPECT_EQ(fault(replicate), "mode replicate cannot exchange blocks; only scatter and root can");
    EXPECT_EQ(fault(memory), "shared_memory cannot exchange blocks; these algorithms can: direct");
    EXPECT_EQ(fault(shares), "an exchange of blocks has neither shares nor route_share; remove them");
}

TEST(exchange, to_and_from_a_root_has_one_mode) {
    const std::vector mixed{over({0}, 2), over({1, 2}, 6, mode::root)};
    EXPECT_EQ(fault_of_exchange(mixed), std::nullopt);
    EXPECT_EQ(fault_of_exchange(mixed, collective::gather),
              std::pair(1, std::string("mode root after mode scatter; stages of gather have one mode")));
}

// In mode scatter every rank of the root's node exchanges with other nodes, by its own NIC.
TEST(exchange, to_and_from_a_root_by_all_ranks_of_its_node) {
    const hierarchy nodes = test::two_nodes();  // 2 nodes of 4 ranks
    for (const collective what : {collective::gather, collective::scatter}) {
        const collective_call call{.what = what, .count = 4, .root = 5, .blocks = equal_blocks(8, 4)};
        const call_layout by_all(nodes, std::vector{over({0}, 4), over({1}, 2)}, call);
        std::map<int, std::int64_t> elements;  // in or out, by rank of the root's node
        for (int r = 0; r < 8; ++r)
            for (const instr& i : by_all.schedule_of(r).instrs)
                if (i.what == action::send && leaves_node(nodes, r, i.peer))
                    elements[r < 4 ? i.peer : r] += i.src.part.count();
        EXPECT_EQ(elements, (std::map<int, std::int64_t>{{4, 4}, {5, 4}, {6, 4}, {7, 4}})) << to_string(what);
    }
}

// In mode root the root's node exchanges one message with each other node.
TEST(exchange, to_and_from_a_root_takes_one_message_for_each_node) {
    const hierarchy racks = test::three_racks();
    for (const collective what : {collective::gather, collective::scatter})
        for (const int root : {0, 5}) {
            const collective_call call{.what = what, .count = 4, .root = root, .blocks = equal_blocks(12, 4)};
            const call_layout staged(racks, std::vector{over({0}, 2, mode::root), over({1, 2}, 6, mode::root)}, call),
                direct(racks, std::vector{over({0, 1, 2}, 12)}, call);
            std::vector<schedule> by_stages, at_once;
            for (int r = 0; r < 12; ++r) {
                by_stages.push_back(staged.schedule_of(r));
                at_once.push_back(direct.schedule_of(r));
            }
            EXPECT_EQ(between_nodes(racks, by_stages), std::pair(5, std::int64_t{40})) << to_string(what);
            EXPECT_EQ(between_nodes(racks, at_once), std::pair(10, std::int64_t{40})) << to_string(what);
        }
}

// The verifier's contract: block d of rank s is block s of rank d, and nothing else is touched.
class exchange_contract : public testing::Test {
protected:
    std::vector<schedule> all = programs_of(test::network(3), {over({0}, 3)}, 2);
    expectation of{.root = 0, .blocks = equal_blocks(3, 2)};

    instr& first(int rank, action what) {
        for (instr& i : all[at(rank)].instrs)
            if (i.what == what) return i;
        throw std::logic_error("no such instruction");
    }
    void expect(const std::string& part) const {
        const auto fault = find_fault(all, of);
        ASSERT_TRUE(fault);
        EXPECT_NE(fault->find(part), std::string::npos) << *fault;
    }
};

TEST_F(exchange_contract, holds) { EXPECT_EQ(find_fault(all, of), std::nullopt); }

TEST_F(exchange_contract, a_block_for_another_rank_arrives) {
    first(0, action::send).src.part = {4, 6};
    expect("rank 1: elements of another place arrive");
}

TEST_F(exchange_contract, a_block_at_the_place_of_another) {
    // Rank 0 receives both blocks into one place.
    instr& in = first(0, action::recv);
    in.dst.part = in.dst.part.begin == 2 ? range{4, 6} : range{2, 4};
    EXPECT_NE(find_fault(all, of), std::nullopt);
}

TEST_F(exchange_contract, the_own_block_is_missing) {
    instr& own = first(2, action::copy);
    own.src.part = {0, 2};
    expect("rank 2: elements of another place arrive");
}

TEST_F(exchange_contract, half_a_block) {
    first(0, action::send).src.part.end -= 1;
    EXPECT_NE(find_fault(all, of), std::nullopt);
}

TEST_F(exchange_contract, blocks_are_equal) {
    of.blocks = {{0, 1}, {1, 4}, {4, 6}};
    expect("blocks of 1 and of 3 elements in an exchange");
}

// If the plan's stages have a higher price than direct, simulations have chosen them.
TEST(exchange, is_never_slower_than_direct) {
    for (const hierarchy& machine : test::machines()) {
        const plan_data made = make_plan("test", machine);
        for (const collective what : {collective::alltoall, collective::gather, collective::scatter}) {
            const candidate direct = baseline(machine, "direct", what);
            for (const rule& r : made.rules.at(what)) {
                const rule other = test::tuned(machine, direct, r.at, what);
                if (r.predicted <= policy.equal * 1.0001 * other.predicted) continue;
                ASSERT_GT(r.simulated, 0) << to_string(what) << " up to " << r.up_to;
                EXPECT_LE(r.simulated, policy.equal * 1.01 * simulate(machine, other, what, r.at).time)
                    << to_string(what) << ": " << describe(machine, r.stages) << " up to " << r.up_to;
            }
        }
    }
}

// The slow link belongs to a rank outside the root's node.
TEST(exchange, with_a_root_is_no_faster_than_a_slow_link_anywhere) {
    hierarchy nodes = test::two_nodes();
    level& inner = nodes.levels[0];
    inner.rates.assign(at(nodes.ranks()), inner.bandwidth);
    inner.rates.back() = nodes.levels[1].bandwidth / 100;
    const std::vector<stage> stages{over({0}, 4, mode::root), over({1}, 2, mode::root)};
    for (const collective what : {collective::gather, collective::scatter})
        EXPECT_GE(pricer(nodes).price_stages(stages, what).time(mib, 1, 0), limit(nodes, mib, what)) << to_string(what);
}

// Stages join small blocks into larger messages.
TEST(exchange, is_staged_where_messages_are_short) {
    const hierarchy racks = test::three_racks();
    const plan_data made = make_plan("test", racks);
    EXPECT_GT(made.choose(collective::alltoall, 12 * 64).stages.size(), 1u);
    EXPECT_THROW(baseline(racks, "flat-ring", collective::alltoall), usage_error);
    EXPECT_THROW(baseline(racks, "direct"), usage_error);
}

TEST(exchange, has_a_limit) {
    // A vector has 8 blocks, and a node of 4 ranks sends 4 x 4 blocks; with 12 blocks a rack of 6 ranks sends 36.
    EXPECT_DOUBLE_EQ(limit(test::two_nodes(), mib, collective::alltoall), 2.0 * mib / 125e6);
    EXPECT_DOUBLE_EQ(limit(test::two_racks(), mib, collective::alltoall), 3.0 * mib / 62.5e6);
    EXPECT_EQ(limit(test::network(1), mib, collective::alltoall), 0);
    // The root's node of 4 of 8 ranks gets the blocks of 4 others.
    EXPECT_DOUBLE_EQ(limit(test::two_nodes(), mib, collective::gather), 0.5 * mib / 125e6);
    EXPECT_DOUBLE_EQ(limit(test::two_nodes(), mib, collective::scatter), 0.5 * mib / 125e6);
}

}  // namespace
}  // namespace terrace::detail::exchange_test
