#include "topology/node.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/disjoint_sets.hpp"
#include "machine/level_yaml.hpp"
#include "topology/gpu_links.hpp"
#include "topology/node_nics.hpp"
#include "topology/part_list.hpp"

namespace terrace::detail {

namespace {

using kind = part::kind;

// Ranks divided into groups: groups[r] is the first rank of the group of r.
using grouping = std::vector<int>;

// A criterion by which ranks may belong together, with the fabric that connects the parts of a group.
struct criterion {
    std::string name;
    fabric medium;
    grouping groups;
};

// Groups ranks with equal keys.
grouping group_by(const std::vector<int>& keys) {
    std::map<int, int> first;
    grouping groups;
    for (std::size_t r = 0; r < keys.size(); ++r)
        groups.push_back(first.emplace(keys[r], static_cast<int>(r)).first->second);
    return groups;
}

// Returns the sets of 0 ... n - 1 as groups. The first member stands for its set.
grouping groups_of(disjoint_sets& sets, int n) {
    grouping g;
    for (int i = 0; i < n; ++i) g.push_back(sets.find(i));
    return g;
}

// Returns the finest grouping that keeps the groups of both together.
grouping join(const grouping& a, const grouping& b) {
    const auto n = static_cast<int>(a.size());
    disjoint_sets sets(n);
    for (int r = 0; r < n; ++r) {
        sets.merge(r, a[at(r)]);
        sets.merge(r, b[at(r)]);
    }
    return groups_of(sets, n);
}

int count_groups(const grouping& g) {
    int count = 0;
    for (std::size_t r = 0; r < g.size(); ++r) count += g[r] == static_cast<int>(r);
    return count;
}

// Finds the levels that join the ranks of one node, such as NVLink, a switch, a socket.
class level_finder {
public:
    // @param ranks the part of each rank, at least one
    level_finder(const part_list& parts, const hardware& h, std::vector<int> ranks)
        : parts_(parts),
          ranks_(std::move(ranks)),
          wire_rate_(ranks_.size(), 0),
          wires_assumed_(!h.wires_assumed.empty()) {
        const bool gpus = parts_[ranks_.front()].what == kind::gpu;
        const fabric inside = gpus ? fabric::pcie : fabric::shm;
        if (gpus) {
            criteria_.push_back({h.wire_name, fabric::nvlink, wired(h)});
            add_switches();
            criteria_.push_back({"host-bridge", inside, within(kind::root)});
        } else {
            criteria_.push_back({"l3", inside, within(kind::cache)});
        }
        criteria_.push_back({"numa", inside, within(kind::numa)});
        // An NCCL file has no sockets, so no level is called "socket".
        if (!parts_.of_kind(kind::package).empty()) criteria_.push_back({"socket", inside, within(kind::package)});
        criteria_.push_back({"node", fabric::bus, grouping(ranks_.size(), 0)});
        // Finer groupings come first: an L3 may be inside a NUMA node, or several NUMA nodes may share an L3.
        std::ranges::stable_sort(criteria_.begin() + (gpus ? 1 : 0), criteria_.end(), std::greater{},
                                 [](const criterion& c) { return count_groups(c.groups); });
    }

    // Returns the levels; `order` gets the new order of the ranks. A criterion that joins nothing more makes no level,
    // but renames the last level if their groups are equal: an NVLink pair that is a whole socket is "socket".
    hierarchy find(std::vector<int>& order) {
        hierarchy h;
        grouping current = numbers_below(static_cast<int>(ranks_.size()));  // each rank alone
        std::vector<grouping> groupings;
        for (const criterion& c : criteria_) {
            grouping next = join(current, c.groups);
            const bool joins = count_groups(next) < count_groups(current);
            const bool needed = h.levels.empty() && &c == &criteria_.back();
            if (joins || needed) {
                h.levels.push_back(level_of(c, current, next));
                groupings.push_back(next);
                current = std::move(next);
            } else if (!h.levels.empty() && c.groups == current) {
                h.levels.back().name = c.name;
            }
        }
        h.shape = tree_from(groupings, order);
        return h;
    }

private:
    // Groups ranks by the part of this kind around them. A part that holds several sockets, such as memory that all
    // share, is no more than the node and groups nothing. If only some ranks are in such a part, the others join the
    // next part around them that has one, up to a socket. NUMA nodes may have no memory, or be off-line.
    grouping within(kind what) const {
        const std::vector<int> sockets = parts_.counts(parts_.of_kind(kind::package));
        const std::vector<int> held = parts_.counts(parts_.of_kind(what));
        const auto is_in = [&](int r) { return parts_[parts_.within(r, what)].what == what; };
        const bool any = std::ranges::any_of(ranks_, is_in);
        std::vector<int> places;
        for (const int r : ranks_) {
            int place = parts_.within(r, what);
            if (any && !is_in(r))
                for (int next = parts_.above(r); next != nowhere && sockets[at(next)] <= 1 && held[at(place)] == 0;
                     next = parts_.above(next))
                    place = next;
            places.push_back(sockets[at(place)] > 1 ? r : place);
        }
        return group_by(places);
    }

    // Adds the nested switches as criteria, innermost first. A switch with a single GPU behind it joins nothing.
    void add_switches() {
        const std::vector<int> counts = parts_.counts(ranks_);
        std::vector<std::vector<int>> nested;  // [rank]
        std::size_t most = 0;
        for (const int r : ranks_) {
            std::vector<int>& own = nested.emplace_back();
            for (int place = parts_.above(r); place != nowhere; place = parts_.above(place))
                if (parts_[place].what == kind::bus_switch && counts[at(place)] > 1) own.push_back(place);
            most = std::max(most, own.size());
        }
        constexpr std::size_t most_levels = 8;
        for (std::size_t i = 0; i < std::min(most, most_levels); ++i) {
            std::vector<int> places;
            for (std::size_t r = 0; r < ranks_.size(); ++r) {
                const std::vector<int>& own = nested[r];
                places.push_back(own.empty() ? ranks_[r] : own[std::min(i, own.size() - 1)]);
            }
            criteria_.push_back({i == 0 ? "switch" : fmt::format("switch-{}", i + 1), fabric::pcie, group_by(places)});
        }
    }

    // Groups GPUs that wires join, and adds up their wires. All switches count as one, which joins all GPUs on it.
    grouping wired(const hardware& h) {
        const auto n = static_cast<int>(ranks_.size());
        disjoint_sets sets(n + 1);
        for (const hardware::wire& w : h.wires) {
            wire_rate_[at(w.from)] += w.rate;
            sets.merge(w.from, w.to < 0 ? n : w.to);
        }
        return groups_of(sets, n);
    }

    // Returns the level with the link of its slowest child. Rates that the file does not give are assumed.
    level level_of(const criterion& c, const grouping& below, const grouping& joined) const {
        level l = usual_level(c.name, c.medium);
        std::map<int, int> child_place, place;  // smallest parts that hold a child or a domain, by its first rank
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            const auto widen = [&](std::map<int, int>& places, int group) {
                int& whole = places.emplace(group, ranks_[r]).first->second;
                whole = parts_.common(whole, ranks_[r]);
            };
            widen(child_place, below[r]);
            widen(place, joined[r]);
        }
        std::map<int, int> children;  // of each domain
        for (const auto& [first, child] : child_place) ++children[joined[at(first)]];
        double slowest = std::numeric_limits<double>::infinity();
        bool assumed = c.medium == fabric::nvlink && wires_assumed_;
        for (const auto& [first, child] : child_place) {
            const int domain = joined[at(first)];
            if (children[domain] == 1 && child_place.size() > place.size()) continue;  // this domain joins nothing
            double link = c.medium == fabric::nvlink ? wire_rate_[at(first)] : slowest_between(child, place.at(domain));
            if (link <= 0) {
                link = l.bandwidth;
                assumed = true;
            }
            slowest = std::min(slowest, link);
        }
        if (c.medium == fabric::bus && slowest >= l.bandwidth) {  // no file gives the rates between sockets
            slowest = l.bandwidth;
            assumed = true;
        }
        l.bandwidth = slowest;
        l.bandwidth_assumed = assumed;
        return normalised(std::move(l));
    }

    // Returns the rate of the slowest known PCIe link from `inner` up to `outer` [B/s]; 0 if none is known.
    double slowest_between(int inner, int outer) const {
        double slowest = 0;
        for (int i = inner; i != outer && i != nowhere; i = parts_.above(i))
            slowest = rate_in_series(slowest, parts_[i].link);
        return slowest;
    }

    // Returns the tree. Ranks of a group need not be neighbours, so `order` first sorts them by their groups.
    tree tree_from(const std::vector<grouping>& groupings, std::vector<int>& order) const {
        order = numbers_below(static_cast<int>(ranks_.size()));
        for (const grouping& g : groupings) std::ranges::stable_sort(order, {}, [&](int r) { return g[at(r)]; });
        std::vector<std::vector<int>> children;
        grouping parts = numbers_below(static_cast<int>(ranks_.size()));
        for (const grouping& g : groupings) {
            std::vector<int>& sizes = children.emplace_back();
            for (std::size_t i = 0; i < order.size(); ++i) {
                const int r = order[i];
                const bool first = i == 0;
                if (first || g[at(r)] != g[at(order[i - 1])]) sizes.push_back(0);
                if (first || parts[at(r)] != parts[at(order[i - 1])]) ++sizes.back();
            }
            parts = g;
        }
        return tree(std::move(children));
    }

    const part_list& parts_;
    std::vector<int> ranks_;         // part of each rank
    std::vector<double> wire_rate_;  // by rank: all its wires together [B/s]
    bool wires_assumed_;
    std::vector<criterion> criteria_;
};

// Returns the parts that get a rank. If NUMA nodes are nested, only the inner ones count.
std::vector<int> rank_parts(const part_list& parts, rank_unit unit) {
    constexpr kind of_unit[] = {kind::gpu, kind::core, kind::numa, kind::package};
    std::vector<int> chosen = parts.of_kind(of_unit[static_cast<std::size_t>(unit)]);
    const std::vector<int> held = parts.counts(chosen);
    std::erase_if(chosen, [&](int i) { return held[at(i)] > 1; });
    return chosen;
}

}  // namespace

node place_ranks(hardware parts, std::optional<rank_unit> unit, const std::string& file) {
    node result{{}, std::move(parts)};
    assume_gpu_links(result.parts);
    const part_list all(result.parts.machine);
    const std::vector<int> gpus = all.of_kind(kind::gpu);
    const rank_unit chosen = unit.value_or(gpus.empty() ? rank_unit::cores : rank_unit::gpus);
    std::vector<int> ranks = rank_parts(all, chosen);
    if (ranks.empty())
        throw input_error(
            file, 0, 0,
            fmt::format("holds no {} to place ranks on; choose others of {}", to_string(chosen), rank_unit_names()));
    if (chosen == rank_unit::gpus) {
        // Wires number GPUs in the order of the file; ranks follow the order of the driver.
        std::ranges::stable_sort(ranks, {}, [&](int gpu) { return all[gpu].order; });
        std::map<int, int> rank_of;
        for (const int gpu : ranks) rank_of.emplace(gpu, static_cast<int>(rank_of.size()));
        for (hardware::wire& w : result.parts.wires) {
            w.from = rank_of.at(gpus[at(w.from)]);
            if (w.to >= 0) w.to = rank_of.at(gpus[at(w.to)]);
        }
    }
    std::vector<int> order;
    result.levels = level_finder(all, result.parts, ranks).find(order);
    std::vector<int> placed;
    for (const int r : order) {
        all[ranks[at(r)]].rank = static_cast<int>(placed.size());
        placed.push_back(ranks[at(r)]);
    }
    assign_nics(all, placed);
    return result;
}

std::optional<hierarchy> levels_between(hardware parts, std::span<const int> threads, std::vector<int>& order) {
    const part_list all(parts.machine);
    std::map<int, int> core_of;
    for (const int core : all.of_kind(kind::core))
        for (const int thread : all[core].processors) core_of.emplace(thread, core);
    std::vector<int> ranks;
    for (const int thread : threads) {
        const auto core = core_of.find(thread);
        if (core == core_of.end()) return {};
        ranks.push_back(core->second);
    }
    return level_finder(all, parts, std::move(ranks)).find(order);
}

}  // namespace terrace::detail
