#include "bench/discover/discover.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double of_a_node = 1.5;  // distance beyond a node, of that inside it
constexpr double clearly_a_node = 3;
constexpr double as_near = 0.8;        // latency inside a host of that outside, where it is no node
constexpr std::size_t most_pairs = 5;  // that tell the overhead of a level
constexpr int most_domains = 4;        // whose links inside nodes are measured

std::vector<int> all_of(int n) {
    std::vector<int> all(at(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

grouping one_group(int n) { return grouping::numbered(std::vector<int>(at(n))); }

grouping groups_of_hosts(const std::vector<std::string>& hosts) {
    std::map<std::string, int> number;
    std::vector<int> of;
    for (const std::string& host : hosts)
        of.push_back(number.try_emplace(host, static_cast<int>(number.size())).first->second);
    return grouping::numbered(of);
}

class discoverer {
public:
    discoverer(probes& network, const discover_options& o)
        : net_(network), o_(o), n_(network.ranks()), distance_([this](int a, int b) { return net_.latency(a, b); }) {}

    discovery find() {
        find_nodes();
        if (all_.nodes.size() > 1) find_network();
        measure_inside();
        measure_overheads();
        all_.questions = net_.asked();
        all_.unstable = net_.unstable();
        if (all_.unstable * 10 > all_.questions)
            note("Cannot tell for sure: {} of {} measurements never agreed with themselves.", all_.unstable,
                 all_.questions);
        return std::move(all_);
    }

private:
    template <class... Args>
    void note(fmt::format_string<Args...> text, Args&&... args) {
        all_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
    }

    // ---- nodes ----

    void find_nodes() {
        o_.progress("latencies of pairs");
        const grouping hosts = o_.hosts.empty() ? grouping{} : groups_of_hosts(o_.hosts);
        const std::vector<int> ranks = all_of(n_);
        std::vector<near_level> levels;
        if (!o_.trust_hosts || o_.hosts.empty()) levels = near_levels(distance_, ranks, o_.seed);
        std::size_t node = 0;
        const double jump = node_level(levels, distance_, node);
        const bool one_host = hosts.count == 1;
        if (jump < clearly_a_node && !o_.trust_hosts && !one_host && n_ > 2)
            levels = nodes_by_rate(std::move(levels), jump, node);
        if (!o_.hosts.empty()) {
            const auto same =
                std::find_if(levels.begin(), levels.end(), [&](const near_level& l) { return l.groups == hosts; });
            const bool trivial = hosts.count == 1 || hosts.count == n_;
            if (same != levels.end()) node = static_cast<std::size_t>(same - levels.begin());
            else if (!trivial || o_.trust_hosts) return nodes_are(hosts);
            else if (hosts.count == 1) {
                in_nodes_ = std::move(levels);
                return set_nodes(one_group(n_));
            }
        }
        if (node == levels.size()) {  // nothing stands out
            beyond_ = std::move(levels);
            return set_nodes(grouping::numbered(ranks));
        }
        in_nodes_.assign(levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(node));
        inside_latency_ = levels[node].distance;
        node_confidence_ = levels[node].confidence;
        beyond_.assign(levels.begin() + static_cast<std::ptrdiff_t>(node) + 1, levels.end());
        set_nodes(levels[node].groups);
    }

    // Where messages are as late inside nodes as between them, as over TCP on ranks that share cores, rates tell more.
    // What is inside or around nodes is left to others: only the level that stands out most is kept, as the `node`th.
    std::vector<near_level> nodes_by_rate(std::vector<near_level> by_latency, double jump, std::size_t& node) {
        o_.progress("rates of pairs");
        distances bytes([this](int a, int b) { return 1 / net_.rough_rate({a, b}); });
        std::vector<near_level> levels = near_levels(bytes, all_of(n_), o_.seed);
        std::size_t stands_out = 0;
        if (node_level(levels, bytes, stands_out) <= jump) return by_latency;
        near_level found = std::move(levels[stands_out]);
        found.distance = distance_between(distance_, grouping::numbered(all_of(n_)), found.groups, all_of(n_));
        node = 0;
        return {std::move(found)};
    }

    // Finds the level beyond which distances grow most, the number of levels where nowhere does. Returns how much.
    double node_level(const std::vector<near_level>& levels, const distances& by, std::size_t& found) {
        double most = of_a_node;
        found = levels.size();
        for (std::size_t l = 0; l < levels.size(); ++l) {
            const double next = l + 1 < levels.size()
                                    ? levels[l + 1].distance
                                    : distance_between(by, levels[l].groups, one_group(n_), all_of(n_));
            if (levels[l].distance > 0 && next / levels[l].distance > most) {
                most = next / levels[l].distance;
                found = l;
            }
        }
        return most;
    }

    void set_nodes(const grouping& g) {
        node_of_ = g;
        all_.nodes = g.members();
    }

    // As hosts say, since measurements say otherwise or nothing.
    void nodes_are(const grouping& hosts) {
        set_nodes(hosts);
        for (const std::vector<int>& ranks : all_.nodes) {
            if (ranks.size() < 2) continue;
            const double inside = distance_(ranks[0], ranks[1]);
            inside_latency_ = inside_latency_ > 0 ? std::min(inside_latency_, inside) : inside;
            if (!o_.trust_hosts && node_of_.count > 1) {
                const int other = all_.nodes[node_of_.of[at(ranks[0])] == 0 ? 1 : 0].front();
                if (inside > as_near * distance_(ranks[0], other) &&
                    net_.rough_rate({ranks[0], ranks[1]}) < net_.rough_rate({ranks[0], other}) / as_near)
                    note("Ranks on host {} are no nearer to one another than to those on other hosts.",
                         o_.hosts[at(ranks[0])]);
            }
        }
        if (!o_.trust_hosts)
            note("Neither latencies nor rates show the nodes that host names show; nodes are by host names.");
        std::vector<int> first;
        for (const std::vector<int>& ranks : all_.nodes) first.push_back(ranks.front());
        for (const near_level& l : near_levels(distance_, first, o_.seed)) {
            std::vector<int> of(at(n_));
            for (int r = 0; r < n_; ++r) of[at(r)] = l.groups.of[at(node_of_.of[at(r)])];
            beyond_.push_back({grouping::numbered(of), l.distance, l.confidence});
        }
    }

    // ---- between nodes ----

    grouping of_ranks(const grouping& of_nodes) const {
        std::vector<int> of(at(n_));
        for (int r = 0; r < n_; ++r) of[at(r)] = of_nodes.of[at(node_of_.of[at(r)])];
        return grouping::numbered(of);
    }

    void find_network() {
        o_.progress("what nodes send by one rank and by all");
        all_.nics = find_nics(net_, all_.nodes);
        std::vector<std::vector<int>> ranks = all_.nodes;  // those of one NIC number at the same place
        for (std::size_t n = 0; n < all_.nics.of_rank.size(); ++n) {
            std::map<int, int> nic;
            for (std::size_t i = 0; i < ranks[n].size(); ++i) nic[all_.nodes[n][i]] = all_.nics.of_rank[n][i];
            std::stable_sort(ranks[n].begin(), ranks[n].end(), [&](int a, int b) { return nic[a] < nic[b]; });
        }
        node_network net(net_, ranks, all_.nics.lanes);
        o_.progress(fmt::format("contention of {} nodes", net.nodes()));
        const std::vector<observation> seen = observe(net, o_.seed);
        o_.progress("groups of nodes");
        std::vector<grouping> known;
        std::map<std::vector<int>, double> sure;
        for (const near_level& l : beyond_) {
            std::vector<int> of;
            for (const std::vector<int>& ranks : all_.nodes) of.push_back(l.groups.of[at(ranks.front())]);
            known.push_back(grouping::numbered(of));
            sure[known.back().of] = l.confidence;
        }
        switch_tree tree = find_switches(seen, net.nodes(), known);
        for (switch_level& l : tree)
            if (const auto by_latency = sure.find(l.groups.of); by_latency != sure.end())
                l.confidence = by_latency->second;
        o_.progress("links of groups");
        measure_uplinks(net, tree);
        for (std::size_t l = 0; l < tree.size(); ++l) {
            found_level& made = network_.emplace_back();
            made.groups = l + 1 < tree.size() ? of_ranks(tree[l + 1].groups) : one_group(n_);
            made.confidence = l + 1 < tree.size() ? tree[l + 1].confidence : 1;
            made.rates = tree[l].rates;
            made.latency = distance_between(distance_, of_ranks(tree[l].groups), made.groups, all_of(n_));
        }
    }

    // ---- inside nodes ----

    void measure_inside() {
        o_.progress("inside nodes");
        std::vector<grouping> inside;
        for (const near_level& l : in_nodes_) inside.push_back(l.groups);
        const bool shared =
            std::any_of(all_.nodes.begin(), all_.nodes.end(), [](const auto& n) { return n.size() > 1; });
        if (shared) inside.push_back(node_of_);
        grouping inner = grouping::numbered(all_of(n_));
        for (std::size_t l = 0; l < inside.size(); ++l) {
            found_level& made = all_.levels.emplace_back();
            made.groups = inside[l];
            made.in_nodes = true;
            made.confidence = l < in_nodes_.size() ? in_nodes_[l].confidence : node_confidence_;
            made.latency = l < in_nodes_.size() ? in_nodes_[l].distance : inside_latency_;
            if (made.latency == 0) made.latency = distance_between(distance_, inner, inside[l], all_of(n_));
            made.rates.assign(at(inner.count), rate_inside(inner, inside[l]));
            inner = inside[l];
        }
        all_.levels.insert(all_.levels.end(), network_.begin(), network_.end());
    }

    // Of the link of one of `inner` to its fellows: all its ranks send to those of the next one.
    double rate_inside(const grouping& inner, const grouping& outer) {
        const std::vector<std::vector<int>> members = inner.members();
        std::vector<double> found;
        for (const std::vector<int>& domain : outer.members()) {
            const int first = inner.of[at(domain.front())];
            const auto other =
                std::find_if(domain.begin(), domain.end(), [&](int r) { return inner.of[at(r)] != first; });
            if (other == domain.end()) continue;
            const std::vector<int>&a = members[at(first)], &b = members[at(inner.of[at(*other)])];
            std::vector<stream> all;
            for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) all.push_back({a[i], b[i]});
            const std::vector<double> rates = all.size() == 1 ? std::vector{net_.rate(all.front())} : net_.rates(all);
            found.push_back(std::accumulate(rates.begin(), rates.end(), 0.0));
            if (found.size() == most_domains) break;
        }
        std::sort(found.begin(), found.end());
        return found.empty() ? 0 : found[found.size() / 2];
    }

    // Of some pairs that meet at each level.
    void measure_overheads() {
        o_.progress("overheads of messages");
        grouping inner = grouping::numbered(all_of(n_));
        for (found_level& l : all_.levels) {
            std::vector<double> found;
            for (const auto& [a, b] : pairs_at(inner, l.groups)) found.push_back(net_.overhead(a, b));
            // Pairs that share a core take longer, and so do those beside other work.
            l.overhead = found.empty() ? 0 : *std::min_element(found.begin(), found.end());
            inner = l.groups;
        }
    }

    // Ranks of neighbours in `inner` that `outer` joins: some at most.
    static std::vector<std::pair<int, int>> pairs_at(const grouping& inner, const grouping& outer) {
        const std::vector<std::vector<int>> members = inner.members();
        std::vector<std::pair<int, int>> found;
        for (const std::vector<int>& domain : outer.members())
            for (std::size_t i = 0, last = domain.size(); i < domain.size() && found.size() < most_pairs; ++i) {
                const int rank = domain[i];
                if (members[at(inner.of[at(rank)])].front() != rank) continue;
                if (last < domain.size()) found.emplace_back(domain[last], rank);
                last = i;
            }
        return found;
    }

    careful_probes net_;
    const discover_options& o_;
    int n_;
    distances distance_;
    grouping node_of_;
    std::vector<near_level> in_nodes_, beyond_;
    double inside_latency_ = 0, node_confidence_ = 1;
    std::vector<found_level> network_;
    discovery all_;
};

}  // namespace

bool discovery::flat() const {
    return std::count_if(levels.begin(), levels.end(), [](const found_level& l) { return !l.in_nodes; }) <= 1;
}

discovery discover(probes& network, const discover_options& o) { return discoverer(network, o).find(); }

}  // namespace terrace::detail::bench
