// Candidates: the stages that the planner considers for a collective.

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/index.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/available.hpp"
#include "planner/planner.hpp"
#include "planner/policy.hpp"
#include "planner/samples.hpp"
#include "planner/shapes.hpp"
#include "planner/simulate/simulate.hpp"
#include "planner/unequal_shares.hpp"
#include "schedule/compose.hpp"
#include "schedule/lower.hpp"
#include "schedule/verify.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::candidates_test {
namespace {

TEST(shapes, keep_merge_and_split_levels) {
    const auto text = [](const shape& s) {
        std::string all;
        for (std::size_t i = 0; i < s.size(); ++i) all += std::to_string(s[i].group) + (is_split(s, i) ? "/ " : " ");
        return all;
    };
    std::vector<std::string> all;
    for (const shape& s : shapes_of(machine(tree::uniform(std::vector{4, 3})))) all.push_back(text(s));
    EXPECT_EQ(all, (std::vector<std::string>{"12 ", "4 3 ", "2/ 2/ 3 "}));
    EXPECT_EQ(shapes_of(pairs_of_pairs(12)).size(), policy.most_candidates + 1) << "and a stage for each level";
}

hierarchy slowed(hierarchy h, int l, int child, double by) {
    std::vector<double> rates(static_cast<std::size_t>(h.shape.members(l)), h.levels[at(l)].bandwidth);
    rates[at(child)] *= by;
    h.levels[at(l)] = with_rates(h.levels[at(l)], rates);
    return h;
}

// Returns three racks of two nodes of two ranks, with racks' links as fast as nodes' links.
hierarchy even_racks() {
    hierarchy h = machine(tree::uniform(std::vector{2, 2, 3}));
    h.levels[2].bandwidth = h.levels[1].bandwidth;
    return h;
}

std::vector<int> shares(const hierarchy& h, const std::vector<int>& levels) { return unequal_shares(h).of(levels); }

TEST(unequal_shares, give_less_to_slow_links) {
    EXPECT_TRUE(shares(two_nodes(), {1}).empty());
    EXPECT_EQ(shares(unequal_links(62.5e6), {1}), (std::vector{1, 1, 0}));
    EXPECT_TRUE(shares(unequal_links(62.5e6), {0}).empty()) << "ranks of a node are alike";
    EXPECT_TRUE(shares(unequal_links(125e6), {1}).empty()) << "alike";
    EXPECT_TRUE(shares(slowed(two_nodes(), 1, 0, 0.5), {1}).empty()) << "whoever owns it, both pass the vector once";
}

// While other links pass the vector twice, a link at half the rate passes it once: its node's sums. So it owns nothing.
TEST(unequal_shares, of_inner_levels_are_for_each_domain) {
    EXPECT_EQ(shares(slowed(even_racks(), 1, 0, 0.5), {1}), (std::vector{0, 1, 1, 1, 1, 1}));
    EXPECT_EQ(shares(slowed(even_racks(), 1, 0, 0.5), {2}), (std::vector{0, 1, 1}));
    EXPECT_EQ(shares(slowed(even_racks(), 1, 0, 0.5), {1, 2}), (std::vector{0, 1, 1, 1, 1, 1}));
    EXPECT_TRUE(shares(slowed(even_racks(), 2, 1, 0.5), {1}).empty()) << "nodes of a rack are alike";
    EXPECT_EQ(shares(slowed(even_racks(), 2, 1, 0.5), {2}), (std::vector{1, 0, 1}));
}

// The links of five nodes pass 2 x 4 vectors in the time T = 8 / 4.75. A node with share f passes 1 + 3 f of them.
TEST(unequal_shares, keep_all_links_equally_busy) {
    hierarchy h = machine(tree::uniform(std::vector{2, 5}));
    h = slowed(h, 1, 4, 0.75);
    const std::vector<int> found = shares(h, {1});
    ASSERT_EQ(found.size(), 5u);
    const double time = 8 / 4.75, slow = time * 0.75 - 1, fast = time - 1;
    for (std::size_t node = 0; node < 4; ++node) EXPECT_EQ(found[node], found[0]);
    EXPECT_NEAR(static_cast<double>(found[4]) / found[0], slow / fast, 1 / policy.share_parts);
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

// GPUs do not share memory.
TEST(candidates, use_shared_memory_inside_nodes_of_processors_only) {
    std::set<mode> modes;
    for (const hierarchy& h : machines())
        for (const candidate& c : candidates(h))
            for (const stage& s : c.stages) {
                if (s.provider != provider::shared_memory) continue;
                modes.insert(s.how);
                EXPECT_EQ(s.levels, std::vector{0}) << describe(h, c.stages);
            }
    EXPECT_EQ(modes.size(), 2U);  // mode replicate is only outermost, not in a node
    for (const fabric inner : {fabric::nvlink, fabric::pcie}) {
        const hierarchy gpus{{link("pair", inner, 20e9, 2e-6, 1e-6), link("node", fabric::bus, 16e9, 1e-6, 0.3e-6)},
                             tree::uniform(std::vector{2, 2})};
        for (const candidate& c : candidates(gpus))
            for (const stage& s : c.stages) EXPECT_EQ(s.provider, provider::messages);
    }
    const hierarchy sockets{
        {link("numa", fabric::shm, 10e9, 0.5e-6, 0.3e-6), link("node", fabric::bus, 16e9, 1e-6, 0.3e-6)},
        tree::uniform(std::vector{4, 2})};
    for (const auto& [what, rules] : make_plan("x", sockets).rules) {
        if (row_of(what).exchange) continue;       // not in shared memory
        if (what == collective::reduce) continue;  // a root that reads from all is slower than a pipeline
        for (const rule& r : rules) {
            // For these sizes a ring in 64 lanes is 2 % faster in simulations.
            if (what == collective::broadcast && r.at > 512 * mib) continue;
            for (const stage& s : r.stages)
                EXPECT_EQ(s.provider, provider::shared_memory) << to_string(what) << ' ' << r.at;
        }
    }
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

// A chain passes many chunks one after another.
TEST(candidates, of_roots_include_chains_over_merged_levels) {
    for (const collective what : {collective::broadcast, collective::reduce}) {
        std::set<std::string> all;
        for (const candidate& c : candidates(two_racks(), what)) all.insert(describe(two_racks(), c.stages));
        for (const char* wanted : {"node+rack+core:12 root chain", "node:3 root chain > rack+core:4 root chain",
                                   "node+rack:6 root chain > core:2 root direct"})
            EXPECT_TRUE(all.contains(wanted)) << ::testing::PrintToString(all);
    }
}

// With scatter inside, all ranks of a node send to other nodes. The outermost stage may scatter, too.
TEST(candidates, of_roots_scatter_inside) {
    for (const collective what : {collective::broadcast, collective::reduce}) {
        std::set<std::vector<mode>> modes;
        for (const candidate& c : candidates(two_racks(), what)) {
            std::vector<mode> of_stages;
            for (const stage& s : c.stages) of_stages.push_back(s.how);
            if (of_stages.size() == 3) modes.insert(std::move(of_stages));
        }
        const std::set<std::vector<mode>> wanted{
            {mode::root, mode::root, mode::root},         {mode::scatter, mode::root, mode::root},
            {mode::root, mode::scatter, mode::root},      {mode::root, mode::root, mode::scatter},
            {mode::root, mode::scatter, mode::scatter},   {mode::scatter, mode::scatter, mode::root},
            {mode::scatter, mode::scatter, mode::scatter}};
        EXPECT_EQ(modes, wanted);
    }
}

// Levels of size 1 get no stage.
TEST(candidates, leave_out_levels_of_one_child) {
    const hierarchy h = machine(tree::uniform(std::vector{1, 4, 2}));
    for (const candidate& c : candidates(h)) {
        if (c.origin != "staged" && c.origin != "mixed") continue;
        for (const stage& s : c.stages) EXPECT_GT(s.group, 1) << describe(h, c.stages);
    }
}

TEST(candidates, use_shared_memory_though_a_level_outside_joins_nothing) {
    const hierarchy h{{link("node", fabric::shm, 1e10, 5e-7, 1e-7), link("net", fabric::ethernet, 1e9, 14e-6, 1e-7)},
                      tree::uniform(std::vector{8, 1})};
    const rule best = make_plan("one", h).rules.at(collective::allreduce).back();
    ASSERT_EQ(best.stages.size(), 1u);
    EXPECT_EQ(best.stages[0].provider, provider::shared_memory);
    const hierarchy inside{{h.levels[0]}, tree::uniform(std::vector{8})};
    EXPECT_EQ(predict(h, best.stages, mib, 1, 0).time,
              predict(inside, {{{0}, 8, mode::scatter, "", provider::shared_memory}}, mib, 1, 0).time);
}

// Ways to group levels double with each level, as do ranks. On machines of many levels only the best ways count.
TEST(candidates, of_many_levels_are_not_too_many) {
    const hierarchy h = pairs_of_pairs(12);
    EXPECT_LT(samples(h, link_rows(h)).count(), 100u);
    const std::vector<candidate> all = candidates(h);
    EXPECT_LT(all.size(), 4000u);
    for (const std::size_t stages : {1u, 2u, 12u})
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const candidate& c) {
            return c.origin == "staged" && c.stages.size() == stages;
        })) << stages;
}

// A node with a slow link gets less of the vector, since equal parts would take 4/3 of the limit. The plan may use
// another candidate that meets the limit, as a root with a fast link.
TEST(candidates, weigh_unequal_links) {
    const hierarchy h = unequal_links(62.5e6);
    const std::vector<ranked> all = rank_candidates(h, 32 * mib);
    const auto weighs = [](const ranked& c) { return c.what.stages.back().shares == std::vector{1, 1, 0}; };
    const auto first = std::ranges::find_if(all, weighs);
    ASSERT_NE(first, all.end());
    const rule& chosen = first->how;
    rule equal = chosen;
    equal.stages.back().shares.clear();
    const auto time = [&](const rule& r) { return predict(h, r.stages, 32 * mib, r.lanes, r.chunk).time; };
    EXPECT_LT(time(chosen), limit(h, 32 * mib) / 0.97);
    EXPECT_GT(time(equal), limit(h, 32 * mib) / 0.76);
    EXPECT_LT(time(make_plan("m", h).choose(collective::allreduce, 32 * mib)), limit(h, 32 * mib) / 0.97);

    // The result is right, also for counts that leave some ranks without elements.
    for (const std::int64_t count : {0, 1, 9, 10, 1000}) {
        std::vector<schedule> programs;
        for (const schedule& s : generate_all(compose(h, chosen.stages, count, 16), collective::allreduce))
            programs.push_back(lower(s, {}));
        EXPECT_EQ(find_fault(programs), std::nullopt) << count;
    }
    // Stages have one share for each sibling, or for each child of all domains.
    const auto refused = [&](std::vector<stage> stages) { EXPECT_THROW(stage_tree(h, stages), stage_error); };
    std::vector<stage> stages = chosen.stages;
    stages.back().shares = {1, 1};
    refused(stages);
    stages.back().shares = {0, 0, 0};
    refused(stages);
    stages = chosen.stages;
    stages.front().shares = {1, 1, 0};
    refused(stages);
    const auto inside = [&](std::vector<int> of_ranks) {
        return std::vector<stage>{{{0}, 0, mode::scatter, "direct", provider::messages, std::move(of_ranks)},
                                  chosen.stages.back()};
    };
    EXPECT_NO_THROW(stage_tree(h, inside({1, 1, 1, 2, 1, 1, 0, 1, 2, 1})));
    refused(inside({1, 1, 1, 2, 1, 1, 0, 1, 0, 0}));
    refused(inside({1, 1, 1, 2}));
}

// A node's link at half its rate passes the vector twice with equal shares, and once if the node owns nothing: then the
// rack's other node has the rack's sums, and others the result. The same holds for a rack's link.
TEST(candidates, weigh_unequal_links_at_all_levels) {
    const hierarchy healthy = even_racks();
    const rule before = make_plan("m", healthy).choose(collective::allreduce, 4 * mib);
    for (const auto& [level, allowed] : {std::pair(1, 0.72), std::pair(2, 0.80)}) {
        const hierarchy h = slowed(healthy, level, 1, 0.5);
        const plan_data plan = make_plan("m", h);
        const rule chosen = plan.choose(collective::allreduce, 4 * mib);
        EXPECT_EQ(parse_plan(plan.text, "m.yaml").choose(collective::allreduce, 4 * mib).stages, chosen.stages);
        const auto time = [&](const rule& r) { return simulate(h, r, collective::allreduce, 4 * mib).time; };
        EXPECT_LT(time(chosen), allowed * time(before)) << describe(h, chosen.stages);
        EXPECT_LT(time(chosen), limit(h, 4 * mib) / 0.9) << describe(h, chosen.stages);
        for (const std::int64_t count : {0, 1, 11, 12, 1000}) {
            std::vector<schedule> programs;
            for (const schedule& s : generate_all(compose(h, chosen.stages, count, 16), collective::allreduce))
                programs.push_back(lower(s, {}));
            EXPECT_EQ(find_fault(programs), std::nullopt) << count;
        }
    }
}

// All stages for a collective without split levels: every grouping of levels, every mode and every algorithm.
class everything {
public:
    everything(const hierarchy& h, collective what) : machine_(h), what_(what) { extend(0); }

    const std::vector<std::vector<stage>>& stages() const { return found_; }

private:
    void extend(int first) {
        if (first == machine_.depth()) {
            if (able(current_, what_)) found_.push_back(current_);
            if (row_of(what_).exchange) return;
            for (std::vector<stage>& turns : turns_of(machine_, current_, 2))
                if (able(turns, what_)) found_.push_back(std::move(turns));
            return;
        }
        std::vector<int> levels;
        for (int last = first; last < machine_.depth(); ++last) {
            levels.push_back(last);
            for (const mode how : {mode::scatter, mode::root, mode::replicate}) {
                if (!can(how, what_) || (how == mode::replicate && last + 1 < machine_.depth())) continue;
                for (const std::span<const algorithm> rows : {algorithms(), provider_collectives()})
                    for (const algorithm& a : rows) {
                        stage s = run_by({levels, group_of(levels), how}, a.name);
                        // The planner has no candidates with MPI's rooted collectives: a scatter by messages spares
                        // the root, but MPI's does not.
                        if (!available(machine_, s, a) || (row_of(what_).has_root() && a.provider == provider::mpi))
                            continue;
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

TEST(candidates, contain_the_best_of_everything) {
    for (const hierarchy& h :
         {two_nodes(), two_racks(), uneven(), machine(tree({{2, 2, 1, 3, 1}, {3, 2}, {2}})), torus_of({4, 3}, 2)})
        for (const collective what : all_collectives) {
            const everything all(h, what);
            for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{4096}, std::int64_t{65536}, mib, 64 * mib}) {
                // With a root there are many more stages, so only three sizes are tested.
                if (row_of(what).has_root() && (bytes == 8 || bytes == mib)) continue;
                const ranked found = rank_candidates(h, bytes, what).front();
                for (const std::vector<stage>& stages : all.stages())
                    EXPECT_LE(found.how.predicted, tuned(h, {"", stages}, bytes, what).predicted * policy.equal)
                        << to_string(what) << " of " << bytes << ": " << describe(h, stages) << " beats "
                        << describe(h, found.what.stages);
            }
        }
}

}  // namespace
}  // namespace terrace::detail::test::candidates_test
