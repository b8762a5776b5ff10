#include "topology/formats/infiniband.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/disjoint_sets.hpp"
#include "base/hosts.hpp"
#include "base/index.hpp"
#include "base/letters.hpp"
#include "base/text_check.hpp"
#include "base/text_file.hpp"
#include "base/text_parts.hpp"

namespace terrace::detail {

namespace {

struct lane_speed {
    std::string_view name;
    double signalling;  // [Gbit/s]
    double data;        // [Gbit/s]
};

// InfiniBand Architecture, volume 2: SDR to QDR use 8b/10b, FDR and EDR 64b/66b; names from HDR on give data rates.
constexpr std::array lane_speeds{
    lane_speed{"SDR", 2.5, 2},        lane_speed{"DDR", 5, 4},          lane_speed{"QDR", 10, 8},
    lane_speed{"FDR10", 10.3125, 10}, lane_speed{"FDR", 14.0625, 13.6}, lane_speed{"EDR", 25.78125, 25},
    lane_speed{"HDR", 53.125, 50},    lane_speed{"NDR", 106.25, 100},   lane_speed{"XDR", 212.5, 200},
};

// Returns host and adapter of "node01 HCA-1" or "node01 mlx5_0"; empty texts for a maker's own description.
std::pair<std::string, std::string> host_and_adapter(const std::string& description) {
    const std::size_t blank = description.find(' ');
    if (blank == description.npos) return {};
    const std::string adapter = description.substr(blank + 1);
    const bool known = std::ranges::any_of(std::array<std::string_view, 6>{"HCA-", "mlx", "ib", "hfi1_", "qib", "bnxt"},
                                           [&](std::string_view prefix) { return adapter.starts_with(prefix); });
    if (!known || adapter.find(' ') != adapter.npos || !is_digit(adapter.back())) return {};
    return {description.substr(0, blank), adapter};
}

class fabric_tree {
public:
    explicit fabric_tree(const infiniband_fabric& f)
        : f_(f), tier_(f.switches.size(), unknown), sets_(static_cast<int>(f.switches.size())) {
        net_.source = f.source;
        net_.join_advice = "print the whole fabric";
        net_.slow_advice = "look for cables that are missing or slow";
        if (f.switches.empty()) net_.fail({}, "no switch in the file; print the whole fabric");
        for (std::size_t i = 0; i < f.switches.size(); ++i)
            if (!number_.emplace(f.switches[i].id, static_cast<int>(i)).second)
                net_.fail(f.switches[i].where, fmt::format("switch \"{}\" is there twice", f.switches[i].id));
        find_nodes();
        find_tiers();
        for (const host& h : hosts_)
            for (const nic& n : h.nics) sets_.merge(h.nics.front().leaf, n.leaf);
    }

    switch_network take() {
        find_rails();
        add_leaves();
        const int top = *std::ranges::max_element(tier_);
        for (int tier = 1; tier <= std::max(top, 1); ++tier) add_tier(tier);
        return std::move(net_);
    }

private:
    static constexpr int unknown = -1;

    struct nic {
        std::string adapter;
        int leaf;
        double rate;
    };
    struct host {
        std::string name;
        std::vector<nic> nics;
    };

    void find_nodes() {
        std::unordered_map<std::string, std::size_t> known;
        std::size_t nameless = 0;
        for (std::size_t s = 0; s < f_.switches.size(); ++s)
            for (const infiniband_fabric::port& p : f_.switches[s].ports) {
                if (number_.contains(p.peer)) continue;
                if (p.description.find("Aggregation Node") != std::string::npos) continue;  // in a switch, for SHARP
                auto [name, adapter] = host_and_adapter(p.description);
                if (name.empty() || !is_host_name(name)) {
                    nameless += !p.description.empty() && !known.contains(p.peer);
                    name = p.peer;
                    net_.expect_host_name(name, f_.switches[s].where);
                }
                const auto [entry, is_new] = known.emplace(name, hosts_.size());
                if (is_new) hosts_.push_back({name, {}});
                hosts_[entry->second].nics.push_back({adapter, static_cast<int>(s), p.rate});
            }
        if (hosts_.empty()) net_.fail({}, "no node hangs on a switch; print the whole fabric");
        if (hosts_.size() > max_hosts) net_.fail({}, fmt::format("more than {} nodes", max_hosts));
        if (nameless > 0)
            net_.notes.push_back(
                fmt::format("adapters whose description has no host, as in \"node01 HCA-1\", are nodes "
                            "of their own: {}; rdma-ndd sets descriptions",
                            nameless));
        for (host& h : hosts_)  // HCA-2 comes before HCA-10
            std::ranges::stable_sort(h.nics, {}, [](const nic& n) { return std::pair(n.adapter.size(), n.adapter); });
    }

    // Finds the number of hops from each switch to the nearest switch with nodes.
    void find_tiers() {
        std::vector<int> found;
        for (const host& h : hosts_)
            for (const nic& n : h.nics)
                if (std::exchange(tier_[at(n.leaf)], 0) == unknown) found.push_back(n.leaf);
        for (std::size_t i = 0; i < found.size(); ++i)
            for (const infiniband_fabric::port& p : f_.switches[at(found[i])].ports) {
                const auto peer = number_.find(p.peer);
                if (peer == number_.end() || tier_[at(peer->second)] != unknown) continue;
                tier_[at(peer->second)] = tier_[at(found[i])] + 1;
                found.push_back(peer->second);
            }
    }

    // Sets NICs, and detects rails: in a group, all i-th adapters share a switch, and each i has a different switch.
    void find_rails() {
        const std::size_t count = hosts_.front().nics.size();
        net_.rails = count > 1;
        std::map<int, const host*> first;  // by group
        for (const host& h : hosts_) {
            for (const nic& n : h.nics) net_.nics[h.name].push_back(n.rate);
            net_.rails &= h.nics.size() == count;
            const host& other = *first.emplace(sets_.find(h.nics.front().leaf), &h).first->second;
            for (std::size_t i = 0; net_.rails && i < count; ++i) {
                net_.rails &= h.nics[i].leaf == other.nics[i].leaf;
                for (std::size_t j = 0; j < i; ++j) net_.rails &= h.nics[i].leaf != h.nics[j].leaf;
            }
        }
        if (!net_.rails) return;
        double slowest = 0;
        for (const auto& [group, h] : first)
            for (const nic& n : h->nics) slowest = rate_in_series(slowest, links_of(n.leaf));
        net_.spine = slowest;
        net_.notes.push_back(fmt::format("rails: each of the {} adapters of a node is on a switch of its own", count));
    }

    // Returns the rate of all links from a switch to other switches [B/s]; 0 if the rate of one is unknown.
    double links_of(int s) const {
        double all = 0;
        for (const infiniband_fabric::port& p : f_.switches[at(s)].ports) {
            const auto peer = number_.find(p.peer);
            if (peer == number_.end() || peer->second == s) continue;
            if (p.rate <= 0) return 0;
            all += p.rate;
        }
        return all;
    }

    void add_leaves() {
        for (const host& h : hosts_) {
            const int group = sets_.find(h.nics.front().leaf);
            const auto [entry, is_new] = below_.emplace(group, net_.switches.size());
            if (is_new) add(group, "");
            network_switch& leaf = net_.switches[entry->second];
            double all = 0;
            const bool known = std::ranges::all_of(h.nics, [](const nic& n) { return n.rate > 0; });
            for (const nic& n : h.nics) all += n.rate;
            leaf.nodes.push_back(h.name);
            leaf.node_links.push_back(known ? all : 0);
        }
    }

    void add(int first, const std::string& above) {
        const infiniband_fabric::fabric_switch& s = f_.switches[at(first)];
        net_.switches.push_back({s.where, name_of(first) + above});
    }

    std::string name_of(int s) const {
        const infiniband_fabric::fabric_switch& it = f_.switches[at(s)];
        return it.description.empty() ? it.id : fmt::format("{} ({})", it.description, it.id);
    }

    // Passes each link of switches up to this tier to `call`, from either end: both switches, and its rate [B/s].
    void each_link(int tier, const auto& call) const {
        const auto counts = [&](int s) { return tier_[at(s)] != unknown && tier_[at(s)] <= tier; };
        for (int s = 0; s < static_cast<int>(f_.switches.size()); ++s)
            for (const infiniband_fabric::port& p : f_.switches[at(s)].ports) {
                const auto peer = number_.find(p.peer);
                if (peer != number_.end() && counts(s) && counts(peer->second)) call(s, peer->second, p.rate);
            }
    }

    disjoint_sets joined_by(int tier, const auto& wanted) const {
        disjoint_sets joined = sets_;
        each_link(tier, [&](int a, int b, double) {
            if (wanted(a, b)) joined.merge(a, b);
        });
        return joined;
    }

    // Joins the parts that switches up to this tier connect: first into groups, if there are any.
    void add_tier(int tier) {
        const disjoint_sets whole = joined_by(tier, [](int, int) { return true; });
        if (const std::optional<disjoint_sets> groups = find_groups(tier, whole)) {
            join(tier, *groups, fmt::format(" and its group, {} above", tier));
            net_.levels.insert(net_.levels.begin() + std::min<std::ptrdiff_t>(tier, std::ssize(net_.levels)), "group");
            if (tier == 1) net_.levels[2] = "global";
        }
        join(tier, whole, tier == 1 ? " and above" : fmt::format(" and {} above", tier));
    }

    // Returns groups of two or more parts each. Links between tiers join them (the fat trees of a Dragonfly+). Else
    // direct links join leaves with a common neighbour, or links faster than others do (the groups of a dragonfly).
    std::optional<disjoint_sets> find_groups(int tier, const disjoint_sets& whole) {
        std::map<int, std::map<int, double>> direct;  // rate between two parts [B/s]
        each_link(tier, [&](int a, int b, double rate) {
            a = sets_.find(a), b = sets_.find(b);
            if (a != b && below_.contains(a) && below_.contains(b)) direct[a][b] += rate;
        });
        double least = std::numeric_limits<double>::infinity();
        for (const auto& [part, links] : direct)
            for (const auto& [peer, rate] : links) least = std::min(least, rate);
        const auto of = [&](int s) -> const std::map<int, double>& { return direct[sets_.find(s)]; };
        const auto meet = [&](int a, int b) {
            const auto& [few, many] = of(a).size() < of(b).size() ? std::tie(of(a), of(b)) : std::tie(of(b), of(a));
            return std::ranges::any_of(few, [&, &more = many](const auto& n) { return more.contains(n.first); });
        };
        const auto fast = [&](int a, int b) {
            const auto link = of(a).find(sets_.find(b));
            return link != of(a).end() && link->second > least;
        };
        for (const disjoint_sets& groups : {joined_by(tier, [&](int a, int b) { return tier_[at(a)] != tier_[at(b)]; }),
                                            joined_by(tier, meet), joined_by(tier, fast)})
            if (are_groups(groups, whole)) return groups;
        note_flattened(tier, direct);
        return {};
    }

    bool are_groups(disjoint_sets groups, disjoint_sets whole) const {
        std::map<int, int> parts_of;
        std::map<int, std::set<int>> groups_of;
        for (const auto& [part, entry] : below_) {
            ++parts_of[groups.find(part)];
            groups_of[whole.find(part)].insert(groups.find(part));
        }
        const auto several = [](const auto& g) { return g.second.size() > 1; };
        return std::ranges::any_of(groups_of, several) &&
               std::ranges::all_of(parts_of, [](const auto& p) { return p.second > 1; });
    }

    // Adds a note if leaves link to one another, but none of them to all others: a torus, a hypercube, a HyperX.
    void note_flattened(int tier, const std::map<int, std::map<int, double>>& direct) {
        std::size_t most = 0, cables = 0;
        std::pair<int, int> one;
        for (const auto& [part, links] : direct) most = std::max(most, links.size());
        if (most == 0 || most + 1 >= direct.size()) return;
        each_link(tier, [&](int a, int b, double) {
            if (!below_.contains(sets_.find(a)) || !below_.contains(sets_.find(b))) return;
            if (++cables == 1) one = {a, b};
        });
        net_.notes.push_back(fmt::format(
            "{} switches with nodes link to one another by {} cables, as \"{}\" to \"{}\", and their links tell no "
            "groups; "
            "they are read as one level that each enters by all its links. A cluster file describes a torus as such",
            direct.size(), cables / 2, name_of(one.first), name_of(one.second)));
    }

    // Makes a level of the parts that are joined now, and sets the rate of the links of each part into it.
    void join(int tier, disjoint_sets joined, const std::string& above) {
        const std::map<int, std::size_t> parts = std::exchange(below_, {});
        std::vector<double> up(net_.switches.size(), 0);
        std::vector<bool> unknown_rate(net_.switches.size(), false);
        each_link(tier, [&](int s, int peer, double rate) {
            const auto part = parts.find(sets_.find(s));
            if (part == parts.end() || sets_.find(peer) == part->first || joined.find(peer) != joined.find(s)) return;
            up[part->second] += rate;
            if (rate <= 0) unknown_rate[part->second] = true;
        });
        for (const auto& [first, part] : parts) net_.switches[part].link_up = unknown_rate[part] ? 0 : up[part];
        sets_ = std::move(joined);
        for (const auto& [first, part] : parts) {
            const int whole = sets_.find(first);
            const auto [entry, is_new] = below_.emplace(whole, net_.switches.size());
            if (is_new) add(whole, above);
            net_.switches[entry->second].switches.push_back(net_.switches[part].name);
        }
    }

    const infiniband_fabric& f_;
    switch_network net_;
    std::unordered_map<std::string_view, int> number_;
    std::vector<host> hosts_;
    std::vector<int> tier_;
    disjoint_sets sets_;                // joined switches
    std::map<int, std::size_t> below_;  // by the first switch of each part: its entry in the network
};

}  // namespace

std::optional<double> infiniband_lane(std::string_view speed) noexcept {
    for (const lane_speed& s : lane_speeds)
        if (s.name == speed) return s.data * 1e9 / 8;
    return {};
}

std::optional<double> infiniband_lane(double gbit) noexcept {
    for (const lane_speed& s : lane_speeds)
        if (gbit > 0.99 * s.signalling && gbit < 1.01 * s.signalling) return s.data * 1e9 / 8;
    return {};
}

double infiniband_rate(std::string_view width, std::string_view speed) noexcept {
    std::string_view unit;
    const auto lanes = leading_number<int>(width, &unit);
    if (!lanes || *lanes < 1 || *lanes > 12 || !same_word(unit, "x")) return 0;
    return *lanes * infiniband_lane(speed).value_or(0);
}

switch_network network_of(const infiniband_fabric& f) { return fabric_tree(f).take(); }

switch_network fabric_reader::read(const std::string& file) {
    fabric_.source = file;
    const std::string text = read_text(file, 32 << 20);
    check_text(text, file);
    for_each_line(text, [&](std::string_view line, int number) { read_line(trimmed(line), number); });
    std::erase_if(fabric_.switches, [](const auto& s) { return s.id.empty(); });  // no port is in the file
    return network_of(fabric_);
}

}  // namespace terrace::detail
