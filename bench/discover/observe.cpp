#include <algorithm>
#include <numeric>
#include <random>

#include "base/index.hpp"
#include "bench/discover/switches.hpp"

namespace terrace::detail::bench {

namespace {

constexpr int few_nodes = 8, some_nodes = 16;
constexpr int tried_orders = 64;  // candidates for one order
constexpr double least_of_observed = 0.9;

// Returns orders of nodes in which each two nodes are in one half about equally often: only then a pair shows whether
// it shares a link. After as many random shuffles some pairs were never together.
std::vector<std::vector<int>> orders_of_halves(int nodes, std::uint64_t seed) {
    std::vector<std::vector<int>> orders;
    if (nodes < 3) return orders;  // no link is shared
    std::mt19937_64 dice(seed);
    std::vector<std::vector<int>> together(at(nodes), std::vector<int>(at(nodes)));
    const auto visit_pairs = [half = nodes / 2](const std::vector<int>& order, auto&& visit) {
        for (const int begin : {0, half})
            for (int i = begin; i < begin + half; ++i)
                for (int j = i + 1; j < begin + half; ++j)
                    visit(std::min(order[at(i)], order[at(j)]), std::max(order[at(i)], order[at(j)]));
    };
    const int count = nodes <= few_nodes ? 8 : nodes <= some_nodes ? 4 : 2;
    for (int o = 0; o < count; ++o) {
        std::vector<int> order = numbers_below(nodes), best;
        int least = 0;
        for (int t = 0; t < tried_orders; ++t) {
            std::shuffle(order.begin(), order.end(), dice);
            int times = 0;
            visit_pairs(order, [&](int a, int b) { times += together[at(a)][at(b)]; });
            if (best.empty() || times < least) best = order, least = times;
        }
        visit_pairs(best, [&](int a, int b) { ++together[at(a)][at(b)]; });
        orders.push_back(std::move(best));
    }
    return orders;
}

observation watched(node_network& net, std::vector<stream> between) {
    std::vector<double> rates = net.rates_once(between);
    return {std::move(between), std::move(rates)};
}

}  // namespace

std::vector<double> node_network::ask(std::span<const stream> between, bool once) {
    std::vector<stream> all;         // between ranks
    std::vector<std::size_t> whose;  // the node stream of each
    for (std::size_t s = 0; s < between.size(); ++s) {
        const auto from = at(between[s].from), to = at(between[s].to);
        for (int i = 0; i < std::min(lanes_[from], lanes_[to]); ++i) {
            all.push_back({ranks_[from][at(i)], ranks_[to][at(i)]});
            whose.push_back(s);
        }
    }
    const std::vector<double> each = once ? net_.rates_once(all) : net_.rates(all);
    std::vector<double> sums(between.size());
    for (std::size_t i = 0; i < each.size(); ++i) sums[whose[i]] += each[i];
    return sums;
}

double node_network::rate(stream between) {
    const auto from = at(between.from), to = at(between.to);
    if (std::min(lanes_[from], lanes_[to]) == 1) return net_.rate({ranks_[from].front(), ranks_[to].front()});
    return rates(std::span(&between, 1)).front();
}

std::vector<observation> observe_alone(node_network& net, std::uint64_t seed) {
    const int n = net.nodes();
    std::mt19937_64 dice(seed);
    std::vector<observation> seen;
    const auto alone = [&](int a, int b) { seen.push_back({{{a, b}}, {net.rate({a, b})}}); };
    for (int a = 0; a < n; ++a) {
        if (n <= few_nodes)
            for (int b = a + 1; b < n; ++b) (a + b) % 2 == 0 ? alone(a, b) : alone(b, a);
        else
            for (int i = 0; i < 2; ++i)
                alone(a, (a + 1 + static_cast<int>(dice() % static_cast<std::uint64_t>(n - 1))) % n);
    }
    return seen;
}

std::vector<observation> observe_all(node_network& net, std::uint64_t seed) {
    const int n = net.nodes();
    std::vector<observation> seen;
    if (n < 3) return seen;  // no link is shared
    std::mt19937_64 dice(seed);
    std::vector<int> order = numbers_below(n);
    const int count = n <= few_nodes ? 6 : n <= some_nodes ? 4 : 2;
    for (int o = 0; o < count; ++o) {
        std::shuffle(order.begin(), order.end(), dice);
        for (int shift = 1; shift < n; ++shift) {
            std::vector<stream> between;
            for (int i = 0; i < n; ++i) between.push_back({order[at(i)], order[at((i + shift) % n)]});
            seen.push_back(watched(net, std::move(between)));
        }
    }
    return seen;
}

std::vector<observation> observe_halves(node_network& net, std::uint64_t seed) {
    const int half = net.nodes() / 2;
    std::vector<observation> seen;
    for (const std::vector<int>& order : orders_of_halves(net.nodes(), seed))
        for (int shift = 0; shift < half; ++shift) {
            std::vector<stream> there, back;
            for (int i = 0; i < half; ++i) {
                const int a = order[at(i)], b = order[at(half + (i + shift) % half)];
                there.push_back({a, b});
                back.push_back({b, a});
            }
            seen.push_back(watched(net, std::move(there)));
            seen.push_back(watched(net, std::move(back)));
        }
    return seen;
}

void measure_uplinks(node_network& net, switch_tree& tree) {
    for (std::size_t l = 1; l < tree.size(); ++l) {
        const grouping& groups = tree[l].groups;
        const std::vector<std::vector<int>> members = groups.members();
        for (int g = 0; g < groups.count; ++g) {
            // The targets are nodes of all other groups in turn, but inside the group around both if there is one.
            std::vector<std::vector<int>> others;
            for (int o = 0; o < groups.count; ++o) {
                const bool together = l + 1 == tree.size() || tree[l + 1].groups.of[at(members[at(o)].front())] ==
                                                                  tree[l + 1].groups.of[at(members[at(g)].front())];
                if (o != g && together) others.push_back(members[at(o)]);
            }
            std::vector<int> targets;
            for (std::size_t i = 0; targets.size() < members[at(g)].size() && i < groups.of.size(); ++i)
                for (const std::vector<int>& other : others)
                    if (i < other.size()) targets.push_back(other[i]);
            std::vector<stream> all;
            for (std::size_t i = 0; i < members[at(g)].size() && i < targets.size(); ++i)
                all.push_back({members[at(g)][i], targets[i]});
            if (all.empty()) continue;
            const std::vector<double> rates = net.rates(all);
            const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
            if (sum > least_of_observed * tree[l].rates[at(g)]) tree[l].rates[at(g)] = sum;
        }
    }
}

}  // namespace terrace::detail::bench
