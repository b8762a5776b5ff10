#include "bench/discover/nodes.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double of_a_node = 1.5;  // distance beyond a node, of that inside it
constexpr double clearly_a_node = 3;
constexpr double as_near = 0.8;  // latency inside a host of that outside, where it is no node

grouping groups_of_hosts(const std::vector<std::string>& hosts) {
    std::map<std::string, int> number;
    std::vector<int> of;
    for (const std::string& host : hosts)
        of.push_back(number.try_emplace(host, static_cast<int>(number.size())).first->second);
    return grouping::numbered(of);
}

class node_search {
public:
    node_search(careful_probes& net, distances& latency, const discover_options& o)
        : net_(net), latency_(latency), o_(o), n_(net.ranks()), ranks_(grouping::each(n_).of) {}

    found_nodes find() {
        search();
        return std::move(found_);
    }

private:
    template <class... Args>
    void note(fmt::format_string<Args...> text, Args&&... args) {
        found_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
    }

    void search() {
        net_.begin("latencies of pairs");
        const grouping hosts = o_.hosts.empty() ? grouping{} : groups_of_hosts(o_.hosts);
        std::vector<near_level> levels;
        if (!o_.trust_hosts || o_.hosts.empty()) levels = near_levels(latency_, ranks_, o_.seed);
        std::size_t node = 0;
        const double jump = node_level(levels, latency_, node);
        if (jump < clearly_a_node && !o_.trust_hosts && hosts.count != 1 && n_ > 2)
            levels = nodes_by_rate(std::move(levels), jump, hosts, node);
        if (!o_.hosts.empty()) {
            const auto same =
                std::find_if(levels.begin(), levels.end(), [&](const near_level& l) { return l.groups == hosts; });
            if (same != levels.end()) node = static_cast<std::size_t>(same - levels.begin());
            else if (tell_something(hosts) || o_.trust_hosts) return nodes_are(hosts);
            else if (hosts.count == 1) {
                found_.inside = std::move(levels);
                found_.groups = hosts;
                return;
            }
        }
        if (node == levels.size()) {  // nothing stands out
            found_.beyond = std::move(levels);
            found_.groups = grouping::each(n_);
            return;
        }
        found_.inside.assign(levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(node));
        found_.latency = levels[node].distance;
        found_.confidence = levels[node].confidence;
        found_.beyond.assign(levels.begin() + static_cast<std::ptrdiff_t>(node) + 1, levels.end());
        found_.groups = levels[node].groups;
    }

    // Where messages are as late inside nodes as between them, as over TCP on ranks that share cores, rates tell more.
    // What is inside or around nodes is left to others: only the level that stands out most is kept, as the `node`th.
    std::vector<near_level> nodes_by_rate(std::vector<near_level> by_latency, double jump, const grouping& hosts,
                                          std::size_t& node) {
        net_.begin("rates of pairs");
        near_level found{hosts, 0, 1};
        if (!rates_show(hosts)) {
            distances bytes([this](int a, int b) { return 1 / net_.rough_rate({a, b}); });
            std::vector<near_level> levels = near_levels(bytes, ranks_, o_.seed);
            std::size_t stands_out = 0;
            if (node_level(levels, bytes, stands_out) <= jump) return by_latency;
            found = std::move(levels[stands_out]);
        }
        found.distance = distance_between(latency_, grouping::each(n_), found.groups, ranks_);
        node = 0;
        return {std::move(found)};
    }

    bool tell_something(const grouping& hosts) const { return hosts.count > 1 && hosts.count < n_; }

    // Whether each host that has several ranks is a node: few questions, where a search asks many.
    bool rates_show(const grouping& hosts) {
        if (!tell_something(hosts)) return false;
        const std::vector<std::vector<int>> ranks = hosts.members();
        for (std::size_t h = 0; h < ranks.size(); ++h)
            if (const int first = ranks[h].front(); ranks[h].size() > 1) {
                const int other = ranks[(h + 1) % ranks.size()].front();
                if (net_.rough_rate({first, ranks[h][1]}) < clearly_a_node * net_.rough_rate({first, other}))
                    return false;
            }
        return true;
    }

    // Finds the level beyond which distances grow most, the number of levels where nowhere does. Returns how much.
    double node_level(const std::vector<near_level>& levels, const distances& by, std::size_t& found) {
        double most = of_a_node;
        found = levels.size();
        for (std::size_t l = 0; l < levels.size(); ++l) {
            const double next = l + 1 < levels.size()
                                    ? levels[l + 1].distance
                                    : distance_between(by, levels[l].groups, grouping::one(n_), ranks_);
            if (levels[l].distance > 0 && next / levels[l].distance > most) {
                most = next / levels[l].distance;
                found = l;
            }
        }
        return most;
    }

    // As hosts say, since measurements say otherwise or nothing.
    void nodes_are(const grouping& hosts) {
        found_.groups = hosts;
        const std::vector<std::vector<int>> nodes = hosts.members();
        for (const std::vector<int>& ranks : nodes) {
            if (ranks.size() < 2) continue;
            const double inside = latency_(ranks[0], ranks[1]);
            found_.latency = found_.latency > 0 ? std::min(found_.latency, inside) : inside;
            if (!o_.trust_hosts && hosts.count > 1) {
                const int other = nodes[hosts.of[at(ranks[0])] == 0 ? 1 : 0].front();
                if (inside > as_near * latency_(ranks[0], other) &&
                    net_.rough_rate({ranks[0], ranks[1]}) < net_.rough_rate({ranks[0], other}) / as_near)
                    note("Ranks on host {} are no nearer to one another than to those on other hosts.",
                         o_.hosts[at(ranks[0])]);
            }
        }
        if (!o_.trust_hosts)
            note("Neither latencies nor rates show the nodes that host names show; nodes are by host names.");
        std::vector<int> first;
        for (const std::vector<int>& ranks : nodes) first.push_back(ranks.front());
        for (const near_level& l : near_levels(latency_, first, o_.seed))
            found_.beyond.push_back({l.groups.of_things(hosts), l.distance, l.confidence});
    }

    careful_probes& net_;
    distances& latency_;
    const discover_options& o_;
    int n_;
    std::vector<int> ranks_;
    found_nodes found_;
};

}  // namespace

found_nodes find_nodes(careful_probes& net, distances& latency, const discover_options& o) {
    return node_search(net, latency, o).find();
}

}  // namespace terrace::detail::bench
