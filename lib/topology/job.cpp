#include "topology/job.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
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
#include "topology/addresses.hpp"
#include "topology/formats/hwloc.hpp"
#include "topology/formats/placed_nodes.hpp"
#include "topology/nodes.hpp"

namespace terrace::detail {

namespace {

// Returns the first hardware thread that each rank may run on; nothing if one has none, or if two share one.
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

// Returns true if a plan can have these names of nodes.
bool are_names(const std::vector<std::string>& hosts) {
    const std::set<std::string_view> different(hosts.begin(), hosts.end());
    if (different.size() != hosts.size() || different.contains("")) return false;
    try {
        return expand_hosts(fold_hosts(hosts)) == hosts;
    } catch (const usage_error&) {
        return false;
    }
}

// Returns the origin of the levels above nodes, for a person.
std::string origin_of(const hierarchy& above) {
    const auto is_assumed = [](const level& l) { return l.name == assumed_level; };
    std::vector<std::string_view> given;
    for (const level& l : above.levels)
        if (!is_assumed(l)) given.push_back(l.name);
    std::string text = std::ranges::any_of(above.levels, is_assumed) ? fmt::format("{} assumed", assumed_level) : "";
    if (given.empty()) return text;
    const bool rates = std::ranges::any_of(above.levels, &level::bandwidth_assumed);
    return fmt::format("{} by the job's addresses{}{}{}", fmt::join(given, ", "), text.empty() ? "" : ", ", text,
                       rates ? ", rates assumed" : "");
}

// Connects the nodes of a job by a network in which the names of nodes are their numbers.
job_machine connected(std::span<const job_node> kinds, std::span<const int> node_kind,
                      const std::vector<std::string>& hosts, const switch_network& network) {
    job_machine found;
    hierarchy above;
    found.order = numbers_below(static_cast<int>(node_kind.size()));
    if (node_kind.size() > 1) {
        // A node without known NICs is assumed to have InfiniBand if addresses give the levels, else Ethernet.
        const bool is_known = network.levels.front() != assumed_level;
        const fabric unknown = is_known ? fabric::infiniband : fabric::ethernet;
        const bool infiniband = std::ranges::all_of(
            kinds, [&](const job_node& k) { return (k.up ? k.up->medium : unknown) == fabric::infiniband; });
        uplink fastest{infiniband ? fabric::infiniband : fabric::ethernet, 0, false};
        const auto rate = [&](const job_node& k) {
            return k.up ? k.up->bandwidth : default_rates(fastest.medium).bandwidth;
        };
        for (const job_node& k : kinds) {
            fastest.bandwidth = std::max(fastest.bandwidth, rate(k));
            fastest.assumed |= !k.up || k.up->assumed;
        }
        above = levels_of(network, fastest, {}).machine;
        std::vector<double> rates;
        for (std::size_t n = 0; n < found.order.size(); ++n) {
            found.order[n] = std::stoi(above.hosts[n]);
            rates.push_back(rate(kinds[at(node_kind[at(found.order[n])])]));
        }
        above.levels.front() = normalised(with_rates(std::move(above.levels.front()), std::move(rates)));
        found.levels_from = origin_of(above);
    }
    std::vector<int> kind_in_order;
    above.hosts.clear();
    for (const int node : found.order) {
        kind_in_order.push_back(node_kind[at(node)]);
        above.hosts.push_back(hosts[at(node)]);
    }
    if (!are_names(hosts)) above.hosts.clear();
    found.machine = without_idle_levels(with_nodes(above, kinds, kind_in_order));
    return found;
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
        levels = hierarchy{{usual_level("node", fabric::shm)}, tree::uniform(std::vector{n})};
        order = numbers_below(n);
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

job_machine machine_of_job(std::span<const job_node> kinds, std::span<const int> node_kind,
                           const std::vector<std::string>& hosts, const std::vector<std::string>& addresses) {
    try {
        return connected(kinds, node_kind, hosts, network_of_addresses(addresses, hosts));
    } catch (const error& e) {
        job_machine found = connected(kinds, node_kind, hosts, network_of_addresses({}, hosts));
        found.doubt = e.what();
        return found;
    }
}

}  // namespace terrace::detail
