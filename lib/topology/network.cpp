#include "topology/network.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"

namespace terrace::detail {

namespace {

// Returns a list of names: "a, b, c and 5 more".
std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 4;
    std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + std::min(most, names.size()), ", "));
    return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

// Joins switches of a fat tree that are above the same switches into one. Each switch below has a link to each of them,
// so a link of the result is as fast as theirs together. A note names the joined switches.
class spine_joiner {
public:
    explicit spine_joiner(switch_network n) : net_(std::move(n)) {}

    switch_network take() {
        while (join()) rename();
        for (const auto& [one, all] : joined_)
            net_.notes.push_back(fmt::format("switches above the same ones are read as one: {}", some_of(all)));
        return std::move(net_);
    }

private:
    // Returns true if any switches were joined.
    bool join() {
        std::map<std::vector<std::string>, std::size_t> first;
        std::vector<network_switch> kept;
        now_.clear();
        for (network_switch& s : net_.switches) {
            std::vector<std::string> below = s.switches;
            std::ranges::sort(below);
            const auto [entry, is_new] =
                below.empty() || !s.nodes.empty() ? std::pair(first.end(), true) : first.emplace(below, kept.size());
            if (is_new || kept[entry->second].name == s.name) {  // connect() refuses a name that is given twice
                kept.push_back(std::move(s));
                continue;
            }
            network_switch& one = kept[entry->second];
            one.speed = one.speed && s.speed ? std::optional(*one.speed + *s.speed) : std::nullopt;
            one.speed_assumed |= s.speed_assumed;
            std::vector<std::string>& all = joined_.try_emplace(one.name, std::vector{one.name}).first->second;
            all.push_back(s.name);
            now_.emplace(s.name, one.name);
        }
        net_.switches = std::move(kept);
        return !now_.empty();
    }

    void rename() {
        for (network_switch& s : net_.switches) {
            std::vector<std::string> below;
            for (std::string& name : s.switches) {
                const auto found = now_.find(name);
                const std::string& is = found == now_.end() ? name : found->second;
                if (std::ranges::find(below, is) == below.end()) below.push_back(is);
            }
            s.switches = std::move(below);
        }
    }

    switch_network net_;
    std::unordered_map<std::string, std::string> now_;
    std::map<std::string, std::vector<std::string>> joined_;
};

constexpr std::size_t max_switches = 50'000;

class switch_tree {
public:
    explicit switch_tree(const switch_network& n) : net_(n), places_(n.switches.size()) {
        if (n.switches.size() > max_switches)
            n.fail(n.switches[max_switches].where, fmt::format("more than {} switches", max_switches));
        check();
        connect();
        for (std::size_t i = 0; i < places_.size(); ++i) find_height(static_cast<int>(i), 1);
    }

    network_levels whole(const std::optional<uplink>& nodes, const std::vector<std::string>& hosts) const {
        const int top = root(hosts);
        hierarchy h;
        const int height = places_[at(top)].height;
        std::vector<std::vector<int>> children(at(height));
        std::vector<std::vector<link>> links(at(height));
        fill(top, height - 1, -1, children, links, h.hosts);
        h.shape = tree(std::move(children));
        for (int l = 0; l < height; ++l) h.levels.push_back(level_at(l, h, links[at(l)], nodes));
        add_ports(h);
        std::vector<std::string> notes = net_.notes;
        for (std::size_t l = 1; l < h.levels.size(); ++l) note_slow_level(h.levels[l - 1], h.levels[l], notes);
        return {without_idle_levels(h), std::move(notes)};
    }

private:
    struct place {
        std::vector<int> below;
        int above = -1;  // -1: none
        int height = 0;  // 1 for switches with nodes
    };

    // One child's link into its level.
    struct link {
        int into;      // the switch
        double given;  // rate of this link in the file [B/s]; 0: none
    };

    const network_switch& of(int i) const { return net_.switches[at(i)]; }

    void check() const {
        for (const network_switch& s : net_.switches)
            if (s.nodes.empty() == s.switches.empty())
                net_.fail(s.where,
                          fmt::format("switch \"{}\" has {}; give it either nodes or switches", s.name,
                                      s.nodes.empty() ? "neither nodes nor switches" : "both nodes and switches"));
    }

    void connect() {
        std::unordered_map<std::string_view, int> index;
        for (std::size_t i = 0; i < net_.switches.size(); ++i)
            if (!index.emplace(net_.switches[i].name, static_cast<int>(i)).second)
                net_.fail(net_.switches[i].where,
                          fmt::format("switch \"{}\" is there twice; name it once", net_.switches[i].name));
        std::unordered_set<std::string_view> seen;
        for (std::size_t i = 0; i < net_.switches.size(); ++i) {
            const network_switch& s = net_.switches[i];
            for (const std::string& node : s.nodes)
                if (!seen.insert(node).second)
                    net_.fail(s.where, fmt::format("node \"{}\" is there twice; name it at one switch", node));
            for (const std::string& name : s.switches) {
                const auto found = index.find(name);
                if (found == index.end())
                    net_.fail(s.where, fmt::format("there is no switch \"{}\"; add it, or leave it out here", name));
                place& below = places_[at(found->second)];
                if (below.above >= 0)
                    net_.fail(
                        s.where,
                        fmt::format("switch \"{}\" is below \"{}\" and \"{}\"; only trees are read: leave it out at "
                                    "one of them, or, if it is above both, make them its switches",
                                    name, net_.switches[at(below.above)].name, s.name));
                below.above = static_cast<int>(i);
                places_[i].below.push_back(found->second);
            }
        }
    }

    int find_height(int i, int depth) {
        place& p = places_[at(i)];
        if (p.height > 0) return p.height;
        const auto refuse = [&](std::string_view what) {
            net_.fail(of(i).where, fmt::format("switch \"{}\" is in a loop, or {}", of(i).name, what));
        };
        if (depth > max_levels) refuse(fmt::format("below more than {} others", max_levels));
        int highest = 0;
        for (const int b : p.below) highest = std::max(highest, find_height(b, depth + 1));
        if (highest >= max_levels) refuse(fmt::format("above more than {} levels", max_levels));
        return p.height = highest + 1;
    }

    // Returns the switches of these hosts; all switches if there are no hosts.
    std::vector<int> switches_of(const std::vector<std::string>& hosts) const {
        std::vector<int> result = numbers_below(static_cast<int>(places_.size()));
        if (hosts.empty()) return result;
        std::vector<std::string> nodes;
        std::vector<int> leaf;  // by node: its switch
        for (const int i : std::exchange(result, {})) {
            nodes.insert(nodes.end(), of(i).nodes.begin(), of(i).nodes.end());
            leaf.resize(nodes.size(), i);
        }
        const host_index index(nodes, net_.source + "'s");
        for (const std::string& host : hosts) result.push_back(leaf[index.find(host)]);
        return result;
    }

    int root(const std::vector<std::string>& hosts) const {
        std::set<int> roots;
        for (int i : switches_of(hosts)) {
            while (places_[at(i)].above >= 0) i = places_[at(i)].above;
            roots.insert(i);
        }
        if (roots.size() > 1) {
            const network_switch& one = of(*roots.begin());
            const network_switch& other = of(*std::next(roots.begin()));
            net_.fail(other.where,
                      fmt::format("nothing connects switch \"{}\" with switch \"{}\"; {}, or plan for the hosts of "
                                  "one with --hosts",
                                  other.name, one.name, net_.join_advice));
        }
        return *roots.begin();
    }

    // Adds switch i as a domain of level l, with the switches and nodes below it. A switch that is lower than level l
    // gets domains of one child above it, whose links are its own link upwards, to switch `up`.
    void fill(int i, int l, int up, std::vector<std::vector<int>>& children, std::vector<std::vector<link>>& links,
              std::vector<std::string>& nodes) const {
        const network_switch& s = of(i);
        const place& p = places_[at(i)];
        const bool stands_in = p.height <= l;
        const std::size_t joined = stands_in ? 1 : l == 0 ? s.nodes.size() : p.below.size();
        children[at(l)].push_back(static_cast<int>(joined));
        for (std::size_t c = 0; c < joined; ++c) {
            const bool known = l > 0 || !s.node_links.empty();
            const double given = stands_in ? s.link_up : !known ? 0 : l == 0 ? s.node_links[c] : of(p.below[c]).link_up;
            links[at(l)].push_back({stands_in ? up : i, given});
        }
        if (stands_in) return fill(i, l - 1, up, children, links, nodes);
        if (l == 0) nodes.insert(nodes.end(), s.nodes.begin(), s.nodes.end());
        for (const int b : p.below) fill(b, l - 1, i, children, links, nodes);
    }

    // Returns level l from the links of its children; the levels below are in `h` already.
    level level_at(int l, const hierarchy& h, const std::vector<link>& links,
                   const std::optional<uplink>& nodes) const {
        level result = usual_level(net_.level_name(l), nodes ? nodes->medium : fabric::infiniband);
        result.bandwidth_assumed = false;
        // If the file gives no rate: a node's own link; above it, as much as all links below the largest switch carry.
        double missing = nodes ? nodes->bandwidth : result.bandwidth;
        if (l > 0) missing = h.levels.back().bandwidth * std::ranges::max(h.shape.children()[at(l - 1)]);
        const bool missing_assumed = l > 0 || !nodes || nodes->assumed;
        // A node has as many links into its leaf switch as it has ports.
        const auto given = [&](double speed) { return l == 0 && nodes ? nodes->with_ports(speed) : speed; };
        std::vector<double> rates;
        for (const link& child : links) {
            if (child.given > 0) {
                rates.push_back(std::min(child.given, fastest_link));
                continue;
            }
            const network_switch& s = of(child.into);
            rates.push_back(std::min(s.speed ? given(*s.speed) : missing, fastest_link));
            result.bandwidth_assumed |= s.speed ? s.speed_assumed : missing_assumed;
        }
        return normalised(with_rates(std::move(result), std::move(rates)));
    }

    // Makes the ports of nodes their NICs, if some node has several and the file has the rates of all.
    void add_ports(hierarchy& h) const {
        std::vector<std::vector<double>> rates;
        bool several = false;
        for (const std::string& node : h.hosts) {
            const auto ports = net_.nics.find(node);
            if (ports == net_.nics.end() || std::ranges::min(ports->second) <= 0) return;
            several |= ports->second.size() > 1;
            rates.push_back(ports->second);
        }
        if (!several) return;
        h.nics = shared_nics(rates, std::vector<int>(h.hosts.size(), 1));
        h.nics.rails = net_.rails;
        h.nics.spine = net_.rails ? net_.spine : 0;
    }

    // Adds a note if a link upwards is slower than one link below it, which is more often a mistake than a network.
    void note_slow_level(const level& below, const level& above, std::vector<std::string>& notes) const {
        if (above.bandwidth >= below.bandwidth) return;
        notes.push_back(
            fmt::format("links into level \"{}\" ({}) are slower than those into level \"{}\" below it "
                        "({}); if that is not so, {}",
                        above.name, format_bandwidth(above.bandwidth), below.name, format_bandwidth(below.bandwidth),
                        net_.slow_advice));
    }

    const switch_network& net_;
    std::vector<place> places_;
};

}  // namespace

std::string switch_network::level_name(int l) const {
    const int named = static_cast<int>(levels.size());
    return l < named ? levels[at(l)] : fmt::format("{}-{}", levels.back(), l - named + 2);
}

void switch_network::expect_host_name(const std::string& name, text_position where) const {
    if (!is_host_name(name)) fail(where, fmt::format("\"{}\" is no name of a node", name.substr(0, 255)));
}

std::vector<std::string> name_lists::expand(std::string_view list) {
    if (list.empty()) return {};
    if (left_ == 0) throw usage_error(fmt::format("more than {} names of nodes and switches", 2 * max_hosts));
    std::vector<std::string> names = expand_hosts(list, std::min(left_, max_hosts));
    left_ -= names.size();
    return names;
}

network_levels levels_of(const switch_network& n, const std::optional<uplink>& nodes,
                         const std::vector<std::string>& hosts) {
    return switch_tree(spine_joiner(n).take()).whole(nodes, hosts);
}

bool is_host_name(const std::string& text) {
    try {
        return expand_hosts(text, 2) == std::vector{text};
    } catch (const usage_error&) {
        return false;
    }
}

bool has_all(const switch_network& n, const std::vector<std::string>& hosts) {
    std::vector<std::string> nodes;
    for (const network_switch& s : n.switches) nodes.insert(nodes.end(), s.nodes.begin(), s.nodes.end());
    const host_index index(nodes, n.source + "'s");
    try {
        for (const std::string& host : hosts) index.find(host);
        return true;
    } catch (const usage_error&) {
        return false;
    }
}

}  // namespace terrace::detail
