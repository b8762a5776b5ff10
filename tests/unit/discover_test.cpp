// terrace-bench --discover on simulated networks: finds the tree and its rates from noisy measurements.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "bench/discover/discover.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "support/simulated_network.hpp"
#include "tools/common/import_child.hpp"
#include "topology/formats/cluster.hpp"

namespace terrace::detail::bench::discover_test {

namespace {

constexpr double megabit = 125e3;  // [B/s]

using parts = std::set<std::set<int>>;

// Returns the groups as sets of places.
parts parts_of(const grouping& g, const std::vector<int>& places) {
    std::vector<std::set<int>> all(at(g.count));
    for (std::size_t r = 0; r < g.of.size(); ++r) all[at(g.of[r])].insert(places[r]);
    return {all.begin(), all.end()};
}

parts parts_of(const tree& shape, int l) {
    std::vector<std::set<int>> all(at(shape.domains(l)));
    for (int r = 0; r < shape.ranks(); ++r) all[at(shape.domain_of(l, r))].insert(r);
    return {all.begin(), all.end()};
}

level link(std::string name, fabric medium, double rate, double latency) {
    return {.name = std::move(name), .medium = medium, .bandwidth = rate, .latency = latency, .overhead = 1e-6};
}

// Returns racks of nodes of several ranks, with oversubscribed uplinks of racks.
hierarchy random_machine(std::uint64_t seed) {
    test::dice dice(seed * 7919 + 11);
    const std::size_t racks = 1 + dice.below(4);
    std::vector<std::vector<int>> children(racks > 1 ? 3 : 2);
    std::vector<double> nodes, uplinks;
    const double over = dice.pick(std::vector{1.5, 2.0, 4.0});
    const bool one_is_slow = dice.below(3) == 0, far = dice.coin();
    for (std::size_t rack = 0; rack < racks; ++rack) {
        const auto n = static_cast<int>(2 + dice.below(4));
        children[1].push_back(n);
        for (int i = 0; i < n; ++i) {
            children[0].push_back(static_cast<int>(2 + dice.below(3)));
            nodes.push_back(1000 * megabit);
        }
        uplinks.push_back(n * 1000 * megabit / over);
    }
    // Two other nodes of the rack are needed: their links show their rates, whatever the rack's uplink carries.
    if (one_is_slow && children[1].front() > 2) nodes[0] = 500 * megabit;
    // With two racks, one receives all that the other sends, so only the slower uplink shows.
    if (racks == 2) uplinks[0] = uplinks[1] = std::min(uplinks[0], uplinks[1]);
    hierarchy h;
    h.levels = {link("node", fabric::shm, 10e9, 0.5e-6), with_rates(link("rack", fabric::ethernet, 0, 30e-6), nodes)};
    if (racks > 1) {
        h.levels.push_back(with_rates(link("core", fabric::ethernet, 0, far ? 50e-6 : 30e-6), uplinks));
        children[2] = {static_cast<int>(racks)};
    }
    h.shape = tree(std::move(children));
    return h;
}

std::string shapes_of(const discovery& d) {
    std::string text;
    for (const found_level& l : d.levels) {
        text += fmt::format("{} groups, {:.0f} %:", l.groups.count, 100 * l.confidence);
        for (const double r : l.rates) text += fmt::format(" {:.0f}", r / megabit);
        text += '\n';
    }
    return text;
}

// Returns "" if the discovery has exactly the machine's groups at these levels, with rates within 10 %.
std::string difference(const hierarchy& truth, std::vector<int> levels, const discovery& d,
                       const std::vector<int>& places) {
    if (d.levels.size() != levels.size()) return "levels: " + shapes_of(d);
    for (std::size_t l = 0; l < levels.size(); ++l)
        if (parts_of(d.levels[l].groups, places) != parts_of(truth.shape, levels[l]))
            return fmt::format("groups of level {}:\n{}", l, shapes_of(d));
    const discovered_machine found = machine_of(d, {});
    for (std::size_t l = 0; l < levels.size(); ++l)
        for (std::size_t r = 0; r < places.size(); ++r) {
            const int below = l == 0 ? -1 : static_cast<int>(l) - 1, true_below = levels[l] - 1;
            const auto place = std::find(found.ranks.begin(), found.ranks.end(), static_cast<int>(r));
            const double is =
                found.machine.rate(static_cast<int>(l),
                                   found.machine.shape.domain_of(below, static_cast<int>(place - found.ranks.begin())));
            const double was = truth.rate(levels[l], truth.shape.domain_of(true_below, places[r]));
            if (is < 0.9 * was || is > 1.1 * was)
                return fmt::format("rate at level {} of rank {}: {:.0f} in place of {:.0f}\n{}", l, r, is / megabit,
                                   was / megabit, shapes_of(d));
        }
    return {};
}

std::vector<int> all_levels(const hierarchy& h) {
    std::vector<int> all;
    for (int l = 0; l < h.depth(); ++l) all.push_back(l);
    return all;
}

discovery discovered(probes& net, std::uint64_t seed, std::vector<std::string> hosts = {}) {
    discover_options o;
    o.seed = seed;
    o.hosts = std::move(hosts);
    return discover(net, o);
}

TEST(discover, finds_random_machines) {
    int right = 0;
    std::string wrong;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const hierarchy truth = random_machine(seed);
        simulated_network net(truth, seed);
        const std::string off = difference(truth, all_levels(truth), discovered(net, seed), net.places());
        right += off.empty();
        if (!off.empty()) wrong += fmt::format("seed {}, {}: {}\n", seed, shape_text(truth.shape), off);
    }
    EXPECT_GE(right, 19) << wrong;
    if (std::getenv("TERRACE_TEST_VERBOSE") != nullptr) fmt::print("{}", wrong);
}

struct shipped {
    const char* name;
    std::vector<int> levels;  // levels that a probe can find
};

class shipped_clusters : public testing::TestWithParam<shipped> {};

TEST_P(shipped_clusters, are_found_in_shuffled_order) {
    const auto file = std::filesystem::path(TERRACE_SOURCE_ROOT) / "topologies" / GetParam().name / "cluster.yaml";
    const hierarchy truth = read_cluster(file, read_node_in_child).machine;
    int right = 0;
    std::string wrong;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        simulated_network net(truth, seed);
        const discovery d = discovered(net, seed);
        EXPECT_TRUE(d.notes.empty()) << d.notes.front();
        const std::string off = difference(truth, GetParam().levels, d, net.places());
        right += off.empty();
        if (!off.empty()) wrong += fmt::format("seed {}: {}\n", seed, off);
    }
    EXPECT_GE(right, 19) << wrong;
}

INSTANTIATE_TEST_SUITE_P(all, shipped_clusters,
                         testing::Values(shipped{"two-by-four", {0, 1}}, shipped{"four-and-two", {0, 1}},
                                         shipped{"three-three-one", {0, 1}}, shipped{"unequal-uplinks", {0, 1}},
                                         shipped{"uneven", {0, 1, 2}}, shipped{"uneven-racks", {0, 1, 2}},
                                         shipped{"three-racks", {0, 1, 2}}, shipped{"blueconnect-fig1", {0, 1, 2}},
                                         shipped{"four-nics", {0, 1}}, shipped{"uneven-nics", {0, 1}},
                                         shipped{"rails", {0, 1}}, shipped{"paper-pcie-10gbe", {0, 1}}),
                         [](const auto& i) {
                             std::string name = i.param.name;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(discover, calls_a_flat_network_flat) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        hierarchy truth;
        truth.levels = {link("node", fabric::shm, 10e9, 0.5e-6),
                        link("cluster", fabric::ethernet, 1000 * megabit, 30e-6)};
        truth.shape = tree::uniform(std::vector{2, 8});
        simulated_network net(truth, seed);
        const discovery d = discovered(net, seed);
        EXPECT_TRUE(d.flat()) << shapes_of(d);
        EXPECT_NE(discovery_text(d, machine_of(d, {}).machine).find("The network is flat"), std::string::npos);
    }
}

// With many racks, one rack's link explains little that the other racks' links do not.
TEST(discover, finds_many_racks) {
    hierarchy truth;
    truth.levels = {link("rack", fabric::ethernet, 1000 * megabit, 30e-6),
                    link("core", fabric::ethernet, 1500 * megabit, 30e-6)};
    truth.shape = tree::uniform(std::vector{3, 13});
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        simulated_network net(truth, seed);
        EXPECT_EQ(difference(truth, {0, 1}, discovered(net, seed), net.places()), "");
    }
}

// Uplinks of racks that are never full change no probe.
TEST(discover, leaves_out_what_changes_no_probe) {
    hierarchy truth;
    truth.levels = {link("node", fabric::shm, 10e9, 0.5e-6), link("rack", fabric::ethernet, 1000 * megabit, 30e-6),
                    link("core", fabric::ethernet, 4000 * megabit, 31e-6)};
    truth.shape = tree::uniform(std::vector{2, 4, 2});
    simulated_network net(truth, 5);
    EXPECT_EQ(discovered(net, 5).levels.size(), 2u);
}

TEST(discover, says_so_where_it_cannot_tell) {
    class erratic final : public probes {
    public:
        int ranks() const override { return 6; }
        double latency(int, int) override { return 1e-6 * static_cast<double>(1 + dice_.below(50)); }
        double overhead(int, int) override { return 1e-6; }
        std::vector<double> rates(std::span<const stream> all) override {
            std::vector<double> found;
            for (std::size_t i = 0; i < all.size(); ++i)
                found.push_back(1e6 * static_cast<double>(1 + dice_.below(50)));
            return found;
        }

    private:
        test::dice dice_{3};
    };
    erratic net;
    const discovery d = discover(net, {});
    const bool told = std::any_of(d.notes.begin(), d.notes.end(),
                                  [](const std::string& n) { return n.starts_with("Cannot tell for sure"); });
    EXPECT_TRUE(told);
    EXPECT_FALSE(d.sure());
    EXPECT_EQ(d.sure_levels(), 0);
}

TEST(discover, says_what_it_knows_when_time_is_up) {
    const hierarchy truth = random_machine(2);
    simulated_network whole(truth, 2);
    const int enough = discovered(whole, 2).questions;
    for (const int time : {0, enough / 2, enough - 1}) {
        simulated_network net(truth, 2);
        discover_options o{.seed = 2};
        o.may_ask = [&](const std::string&, int asked) { return asked < time; };
        const discovery d = discover(net, o);
        EXPECT_EQ(d.questions, time);
        EXPECT_FALSE(d.complete);
        EXPECT_FALSE(d.sure());
        ASSERT_FALSE(d.notes.empty());
        EXPECT_TRUE(d.notes.front().starts_with("Cannot tell: there was no time")) << d.notes.front();
        EXPECT_EQ(d.notes.back().starts_with("What is known: "), time > 0) << d.notes.back();
    }
}

// Other jobs use the network, so a probe does not confirm the previous one.
TEST(discover, does_not_call_a_busy_network_flat) {
    class busy final : public probes {
    public:
        int ranks() const override { return 6; }
        double latency(int, int) override { return 30e-6; }
        double overhead(int, int) override { return 10e-6; }
        std::vector<double> rates(std::span<const stream> all) override {
            std::vector<double> found;
            for (std::size_t i = 0; i < all.size(); ++i)
                found.push_back(all.size() == 1 ? 100e6 : 1e6 * static_cast<double>(10 + dice_.below(90)));
            return found;
        }

    private:
        test::dice dice_{3};
    };
    busy net;
    const discovery d = discover(net, {});
    const std::string text = discovery_text(d, machine_of(d, {}).machine);
    EXPECT_NE(text.find("Cannot tell for sure: while all nodes send"), std::string::npos) << text;
    EXPECT_EQ(text.find("The network is flat"), std::string::npos) << text;
    EXPECT_EQ(d.sure_levels(), 0);
}

// Returns racks with equal latencies inside and between nodes, as if ranks shared cores with ranks of other nodes.
hierarchy racks_of_like_latency() {
    hierarchy truth = read_cluster(std::filesystem::path(TERRACE_SOURCE_ROOT) / "topologies/three-racks/cluster.yaml",
                                   read_node_in_child)
                          .machine;
    for (level& l : truth.levels) l.latency = l.overhead = 5e-6;
    return truth;
}

// Slow processors: if ranks send and receive at once, some streams get only the rate that others leave.
TEST(discover, asks_half_of_the_nodes_where_all_are_too_much) {
    class slow final : public probes {
    public:
        slow(const hierarchy& h, std::uint64_t seed) : net_(h, seed), dice_(seed + 100) {}

        int ranks() const override { return net_.ranks(); }
        double latency(int a, int b) override { return net_.latency(a, b); }
        double overhead(int a, int b) override { return net_.overhead(a, b); }
        std::vector<double> rates(std::span<const stream> all) override {
            std::vector<double> found = net_.rates(all);
            std::set<int> senders;
            for (const stream& s : all) senders.insert(s.from);
            if (std::ranges::any_of(all, [&](const stream& s) { return senders.contains(s.to); }))
                for (double& rate : found) rate *= 0.15 + 0.85 * static_cast<double>(dice_.below(100)) / 100;
            return found;
        }
        const std::vector<int>& places() const { return net_.places(); }

    private:
        simulated_network net_;
        test::dice dice_;
    };
    const hierarchy truth = racks_of_like_latency();
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        slow net(truth, seed);
        const discovery d = discovered(net, seed);
        EXPECT_EQ(difference(truth, all_levels(truth), d, net.places()), "") << seed;
        EXPECT_TRUE(d.sure()) << seed << '\n' << shapes_of(d);
    }
}

TEST(discover, finds_nodes_by_rates_where_latencies_are_alike) {
    const hierarchy truth = racks_of_like_latency();
    simulated_network net(truth, 8);
    EXPECT_EQ(difference(truth, {0, 1, 2}, discovered(net, 8), net.places()), "");
}

TEST(discover, tries_hosts_by_rates_before_all_pairs) {
    const hierarchy truth = racks_of_like_latency();
    simulated_network net(truth, 8), named(truth, 8);
    std::vector<std::string> hosts;
    for (const int place : named.places()) hosts.push_back(fmt::format("n{}", truth.shape.domain_of(0, place)));
    const discovery d = discovered(named, 8, hosts);
    EXPECT_EQ(difference(truth, {0, 1, 2}, d, named.places()), "");
    EXPECT_LT(d.questions, discovered(net, 8).questions - 60);
}

TEST(discover, leaves_out_links_that_never_wait) {
    const grouping pairs = grouping::numbered({0, 0, 1, 1});
    for (const auto& [rate, levels] : {std::pair(190.0, 1U), std::pair(150.0, 2U)}) {
        const switch_tree tree{{grouping::each(4), {100, 100, 100, 100}}, {pairs, {200, rate}}};
        switch_tree left = tree, with_known = tree;
        leave_out_idle(left, {});
        leave_out_idle(with_known, {pairs});
        EXPECT_EQ(left.size(), levels);
        EXPECT_EQ(with_known.size(), 2U);
    }
}

TEST(discover, compares_no_rank_with_all_others) {
    hierarchy truth;
    truth.levels = {link("node", fabric::shm, 10e9, 0.5e-6), link("cluster", fabric::ethernet, 1000 * megabit, 30e-6)};
    truth.shape = tree::uniform(std::vector{4, 16});
    simulated_network net(truth, 4);
    constexpr int pairs = 64 * 63 / 2, answers = 3;
    EXPECT_LT(discovered(net, 4).questions, pairs * answers * 3 / 4);
}

}  // namespace

}  // namespace terrace::detail::bench::discover_test
