#include "bench/discover/discover.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "base/units.hpp"

namespace terrace::detail::bench {

namespace {

// The nodes, as groups of ranks.
struct found_nodes {
    near_level node{{}, 0, 1};               // the nodes; distance is half a round trip [s], 0: unknown
    std::vector<near_level> inside, beyond;  // groups of ranks in nodes, and of whole nodes, by latency
    std::vector<std::string> notes;          // remarks for the user, one sentence each
};

constexpr double of_a_node = 1.5;  // least ratio of the distances beyond a node and inside it
constexpr double clearly_a_node = 3;
constexpr double as_near = 0.8;  // ratio of latencies inside and outside a host, above which the host is no node

// Finds nodes by latencies, or by rates if latencies do not show them, and compares them with host names.
class node_search {
public:
    // @param latency of pairs [s]; keeps all that were measured
    node_search(careful_probes& net, distances& latency, const discover_options& o)
        : net_(net), latency_(latency), o_(o), n_(net.ranks()), ranks_(numbers_below(n_)) {}

    found_nodes find() {
        search();
        return std::move(found_);
    }

private:
    void search() {
        net_.begin("latencies of pairs");
        const grouping hosts = grouping::numbered(o_.hosts);
        std::vector<near_level> levels;
        if (!o_.trust_hosts || o_.hosts.empty()) levels = near_levels(latency_, ranks_, o_.seed);
        std::size_t node = 0;
        const double jump = node_level(levels, latency_, node);
        if (jump < clearly_a_node && !o_.trust_hosts && hosts.count != 1 && n_ > 2)
            levels = nodes_by_rate(std::move(levels), jump, hosts, node);
        if (!o_.hosts.empty()) {
            const auto same = std::ranges::find(levels, hosts, &near_level::groups);
            if (same != levels.end()) node = static_cast<std::size_t>(same - levels.begin());
            else if (tell_something(hosts) || o_.trust_hosts) return nodes_are(hosts);
            else if (hosts.count == 1) {
                found_.inside = std::move(levels);
                found_.node.groups = hosts;
                return;
            }
        }
        if (node == levels.size()) {  // nothing stands out
            found_.beyond = std::move(levels);
            found_.node.groups = grouping::each(n_);
            return;
        }
        found_.inside.assign(levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(node));
        found_.beyond.assign(levels.begin() + static_cast<std::ptrdiff_t>(node) + 1, levels.end());
        found_.node = std::move(levels[node]);
    }

    // Finds nodes by rates: over TCP, with ranks that share cores, latencies may be equal inside and between nodes.
    // Returns only the level that stands out most, at index `node`; or `by_latency` if rates show less.
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

    // Returns true if rates show each host with several ranks as a node. Costs far fewer probes than a search.
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

    // Sets `found` to the level beyond which distances grow most; levels.size() if none do. Returns the factor.
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

    // Uses hosts as nodes: measurements disagree or show nothing, or hosts are trusted.
    void nodes_are(const grouping& hosts) {
        found_.node.groups = hosts;
        const std::vector<std::vector<int>> nodes = hosts.members();
        for (const std::vector<int>& ranks : nodes) {
            if (ranks.size() < 2) continue;
            const double inside = latency_(ranks[0], ranks[1]);
            double& latency = found_.node.distance;
            latency = latency > 0 ? std::min(latency, inside) : inside;
            if (!o_.trust_hosts && hosts.count > 1) {
                const int other = nodes[hosts.of[at(ranks[0])] == 0 ? 1 : 0].front();
                if (inside > as_near * latency_(ranks[0], other) &&
                    net_.rough_rate({ranks[0], ranks[1]}) < net_.rough_rate({ranks[0], other}) / as_near)
                    found_.notes.push_back(
                        fmt::format("Ranks on host {} are no nearer to one another than to those on other hosts.",
                                    o_.hosts[at(ranks[0])]));
            }
        }
        if (!o_.trust_hosts)
            found_.notes.emplace_back(
                "Neither latencies nor rates show the nodes that host names show; nodes are by host names.");
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

constexpr double most_misfit = 0.3;  // largest misfit of a tree that explains the measurements
// Misfit above which fewer streams at once may show more: on slow processors three-racks had 0.22 to 0.60 while all
// nodes sent, and 0.08 to 0.16 while half of them did. Wrong groups were found from 0.12 on.
constexpr double misfit_for_halves = 0.08;
constexpr std::size_t most_pairs = 5;  // measured for the overhead of a level
constexpr int most_domains = 4;        // measured for the rates of a level inside nodes

std::vector<observation> joined(std::vector<observation> first, const std::vector<observation>& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
}

class discoverer {
public:
    discoverer(probes& network, const discover_options& o)
        : net_(network, o.may_ask),
          o_(o),
          n_(network.ranks()),
          ranks_(numbers_below(n_)),
          distance_([this](int a, int b) { return net_.latency(a, b); }) {}

    discovery find() {
        try {
            search();
        } catch (const out_of_time&) {
            all_.complete = false;
            tell_what_is_known();
        }
        all_.questions = net_.asked();
        all_.unstable = net_.unstable();
        if (all_.unstable * 10 > all_.questions)
            doubt(fmt::format("{} of {} measurements never agreed with themselves", all_.unstable, all_.questions));
        if (in_doubt_)
            for (found_level& l : all_.levels) l.confidence = 0;
        return std::move(all_);
    }

private:
    template <class... Args>
    void note(fmt::format_string<Args...> text, Args&&... args) {
        all_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
    }

    // Reports that other work disturbed the measurements: no level is sure.
    void doubt(const std::string& why) {
        note("Cannot tell for sure: {}.", why);
        in_doubt_ = true;
    }

    void search() {
        nodes_ = node_search(net_, distance_, o_).find();
        all_.nodes = nodes_.node.groups.members();
        all_.notes = nodes_.notes;
        if (all_.nodes.size() > 1) find_network();
        measure_inside();
        measure_overheads();
    }

    void tell_what_is_known() {
        note("Cannot tell: there was no time for all questions. The last ones were about {}.", net_.step());
        std::vector<std::string> known;
        if (!all_.nodes.empty()) known.push_back(fmt::format("there are {} nodes", all_.nodes.size()));
        if (!network_.empty() && network_.front().groups.count > 1)
            known.push_back(fmt::format("these are in {} groups", network_.front().groups.count));
        if (const auto& all = distance_.known(); !all.empty()) {
            const auto [least, most] = std::ranges::minmax_element(all, {}, [](const auto& d) { return d.second; });
            known.push_back(fmt::format("half a round trip takes {} to {}", format_duration(least->second),
                                        format_duration(most->second)));
        }
        if (!known.empty()) note("What is known: {}.", fmt::join(known, ", "));
    }

    // ---- between nodes ----

    void find_network() {
        net_.begin("what nodes send by one rank and by all");
        all_.nics = find_nics(net_, all_.nodes);
        std::vector<std::vector<int>> ranks = all_.nodes;  // sorted below: ranks of one NIC number at the same place
        for (std::size_t n = 0; n < all_.nics.of_rank.size(); ++n) {
            std::map<int, int> nic;
            for (std::size_t i = 0; i < ranks[n].size(); ++i) nic[all_.nodes[n][i]] = all_.nics.of_rank[n][i];
            std::stable_sort(ranks[n].begin(), ranks[n].end(), [&](int a, int b) { return nic[a] < nic[b]; });
        }
        node_network net(net_, ranks, all_.nics.lanes);
        net_.begin(fmt::format("contention of {} nodes", net.nodes()));
        const std::vector<observation> alone = observe_alone(net, o_.seed);
        std::vector<observation> seen = joined(alone, observe_all(net, o_.seed));
        net_.begin("groups of nodes");
        std::vector<grouping> known;
        std::map<std::vector<int>, double> sure;
        for (const near_level& l : nodes_.beyond) {
            std::vector<int> of;
            for (const std::vector<int>& ranks : all_.nodes) of.push_back(l.groups.of[at(ranks.front())]);
            known.push_back(grouping::numbered(of));
            sure[known.back().of] = l.confidence;
        }
        switch_tree tree = find_switches(seen, net.nodes(), known);
        if (const double off = misfit(tree, seen); off > misfit_for_halves) {
            net_.begin("contention of half of the nodes");
            std::vector<observation> of_halves = joined(alone, observe_halves(net, o_.seed));
            switch_tree found = find_switches(of_halves, net.nodes(), known);
            if (misfit(found, of_halves) < off) {
                tree = std::move(found);
                seen = std::move(of_halves);
            }
        }
        for (switch_level& l : tree)
            if (const auto by_latency = sure.find(l.groups.of); by_latency != sure.end())
                l.confidence = by_latency->second;
        net_.begin("links of groups");
        measure_uplinks(net, tree);
        leave_out_idle(tree, known);
        if (const double off = misfit(tree, seen); off > most_misfit)
            doubt(fmt::format("while all nodes send, rates are {:.0f} % off what these groups explain", 100 * off));
        for (std::size_t l = 0; l < tree.size(); ++l) {
            found_level& made = network_.emplace_back();
            made.groups = l + 1 < tree.size() ? tree[l + 1].groups.of_things(nodes_.node.groups) : grouping::one(n_);
            made.confidence = l + 1 < tree.size() ? tree[l + 1].confidence : 1;
            made.rates = tree[l].rates;
            made.latency =
                distance_between(distance_, tree[l].groups.of_things(nodes_.node.groups), made.groups, ranks_);
        }
    }

    // ---- inside nodes ----

    void measure_inside() {
        net_.begin("inside nodes");
        std::vector<near_level> inside = nodes_.inside;
        if (nodes_.node.groups.count < n_) inside.push_back(nodes_.node);  // some node has several ranks
        grouping inner = grouping::each(n_);
        for (const near_level& l : inside) {
            found_level& made = all_.levels.emplace_back();
            made.groups = l.groups;
            made.in_nodes = true;
            made.confidence = l.confidence;
            made.latency = l.distance;
            if (made.latency == 0) made.latency = distance_between(distance_, inner, l.groups, ranks_);
            made.rates.assign(at(inner.count), rate_inside(inner, l.groups));
            inner = l.groups;
        }
        all_.levels.insert(all_.levels.end(), network_.begin(), network_.end());
    }

    // Returns the rate of an `inner` group's link to its siblings: all its ranks send to those of another group.
    double rate_inside(const grouping& inner, const grouping& outer) {
        const std::vector<std::vector<int>> members = inner.members();
        std::vector<double> found;
        for (const std::vector<int>& domain : outer.members()) {
            const int first = inner.of[at(domain.front())];
            const auto other = std::ranges::find_if(domain, [&](int r) { return inner.of[at(r)] != first; });
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

    // Measures some pairs that meet at each level.
    void measure_overheads() {
        net_.begin("overheads of messages");
        grouping inner = grouping::each(n_);
        for (found_level& l : all_.levels) {
            std::vector<double> found;
            for (const auto& [a, b] : pairs_at(inner, l.groups)) found.push_back(net_.overhead(a, b));
            // The minimum counts: pairs that share a core, or run beside other work, take longer.
            l.overhead = found.empty() ? 0 : *std::min_element(found.begin(), found.end());
            inner = l.groups;
        }
    }

    // Returns pairs of ranks from neighbouring groups of `inner` that `outer` joins, most_pairs at most.
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
    std::vector<int> ranks_;
    distances distance_;
    found_nodes nodes_;
    std::vector<found_level> network_;
    discovery all_;
    bool in_doubt_ = false;
};

}  // namespace

int discovery::sure_levels() const {
    return static_cast<int>(std::ranges::find_if_not(levels, &found_level::sure) - levels.begin());
}

bool discovery::flat() const { return std::ranges::count(levels, false, &found_level::in_nodes) <= 1; }

discovery discover(probes& network, const discover_options& o) { return discoverer(network, o).find(); }

}  // namespace terrace::detail::bench
