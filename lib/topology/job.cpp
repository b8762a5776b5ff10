#include "topology/job.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/hosts.hpp"
#include "base/index.hpp"
#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/formats/hwloc.hpp"
#include "topology/nodes.hpp"
#include "topology/side_by_side.hpp"

namespace terrace::detail {

namespace {

level plain_level(std::string name, fabric medium) {
    const rates usual = default_rates(medium);
    return {.name = std::move(name),
            .medium = medium,
            .bandwidth = usual.bandwidth,
            .latency = usual.latency,
            .overhead = usual.overhead,
            .bandwidth_assumed = true,
            .latency_assumed = true};
}

hierarchy one_level(int ranks) { return {{plain_level("node", fabric::shm)}, tree::uniform(std::vector{ranks})}; }

// Returns the first thread that each rank may run on; nothing where one may run nowhere, or two in the same place.
std::optional<std::vector<int>> own_threads(std::span<const affinity> ranks) {
    affinity taken{};
    std::vector<int> threads;
    for (const affinity& rank : ranks) {
        int first = -1;
        for (std::size_t w = 0; w < rank.size(); ++w) {
            if ((rank[w] & taken[w]) != 0) return {};
            taken[w] |= rank[w];
            if (first < 0 && rank[w] != 0) first = static_cast<int>(64 * w) + std::countr_zero(rank[w]);
        }
        if (first < 0) return {};
        threads.push_back(first);
    }
    return threads;
}

level cluster_level(std::span<const job_node> kinds, std::span<const int> node_kind) {
    const bool infiniband = std::all_of(kinds.begin(), kinds.end(),
                                        [](const job_node& k) { return k.up && k.up->medium == fabric::infiniband; });
    level l = plain_level("cluster", infiniband ? fabric::infiniband : fabric::ethernet);
    std::vector<double> rates;
    l.bandwidth_assumed = false;
    for (const int k : node_kind) {
        const auto& up = kinds[at(k)].up;
        rates.push_back(up ? up->bandwidth : default_rates(l.medium).bandwidth);
        l.bandwidth_assumed |= !up || up->assumed;
    }
    return normalised(with_rates(std::move(l), std::move(rates)));
}

// Whether a plan can name its nodes so.
bool are_names(const std::vector<std::string>& hosts) {
    const std::set<std::string_view> different(hosts.begin(), hosts.end());
    if (different.size() != hosts.size() || different.contains("")) return false;
    try {
        return expand_hosts(fold_hosts(hosts)) == hosts;
    } catch (const usage_error&) {
        return false;
    }
}

}  // namespace

affinity own_affinity() {
    affinity mine{};
    cpu_set_t set;
    static_assert(sizeof set == sizeof mine);
    if (sched_getaffinity(0, sizeof set, &set) == 0) std::memcpy(mine.data(), &set, sizeof set);
    return mine;
}

job_node this_node(std::span<const affinity> ranks, std::vector<int>& order) {
    return node_of_job(this_hardware(), ranks, order);
}

job_node node_of_job(hardware parts, std::span<const affinity> ranks, std::vector<int>& order) {
    const auto n = static_cast<int>(ranks.size());
    job_node found{{}, uplink_of(parts.machine)};
    std::optional<hierarchy> levels;
    if (const auto threads = own_threads(ranks); threads && n > 1)
        levels = levels_between(std::move(parts), *threads, order);
    if (!levels) {
        levels = one_level(n);
        order.resize(at(n));
        std::iota(order.begin(), order.end(), 0);
    }
    found.levels = std::move(*levels);
    return found;
}

std::string write_job_node(const job_node& n) {
    std::string text = write_hierarchy(n.levels, 0);
    std::vector<std::string> nics;
    for (std::size_t i = 0; n.up && i < n.up->nics.size(); ++i) nics.push_back(format_bandwidth(n.up->nics[i]));
    if (n.up)
        text += fmt::format("uplink: {{fabric: {}, bandwidth: {}, assumed: {}, nics: [{}]}}\n", to_string(n.up->medium),
                            format_bandwidth(n.up->bandwidth), n.up->assumed ? 1 : 0, fmt::join(nics, ", "));
    return text;
}

job_node read_job_node(std::string_view text) {
    const document map = document::parse(text, "a node's description");
    job_node n{read_hierarchy(map), {}};
    if (map.has("uplink")) {
        const document up = map.at("uplink");
        const auto medium = parse_fabric(up.at("fabric").text());
        if (!medium) up.fail("an unknown fabric");
        n.up = uplink{*medium, up.at("bandwidth").bandwidth(), up.at("assumed").integer(0, 1) == 1};
        for (const document& nic : up.at("nics").items()) n.up->nics.push_back(nic.bandwidth());
    }
    return n;
}

hierarchy machine_of_job(std::span<const job_node> kinds, std::span<const int> node_kind,
                         const std::vector<std::string>& hosts) {
    std::vector<hierarchy> insides;
    for (const job_node& k : kinds) insides.push_back(k.levels);
    std::int64_t ranks = 0;
    for (const int k : node_kind) ranks += insides[at(k)].ranks();
    if (ranks > max_ranks) throw usage_error(fmt::format("a job of more than {} ranks", max_ranks));
    hierarchy whole;
    auto [levels, children] = side_by_side(insides, node_kind);
    whole.levels = std::move(levels);
    if (node_kind.size() > 1) {
        whole.levels.push_back(cluster_level(kinds, node_kind));
        children.push_back({static_cast<int>(node_kind.size())});
    }
    whole.shape = tree(std::move(children));
    if (are_names(hosts)) whole.hosts = hosts;
    std::vector<std::optional<uplink>> uplinks;
    for (const job_node& k : kinds) uplinks.push_back(k.up);
    add_nics(whole, uplinks, node_kind);
    return without_idle_levels(whole);
}

}  // namespace terrace::detail
