#include "api/creation/auto_plan.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "api/creation/plan_cache.hpp"
#include "base/hash.hpp"
#include "base/hosts.hpp"
#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "topology/addresses.hpp"
#include "topology/job.hpp"

namespace terrace::detail {

namespace {

// Returns '+' and the result of make(), or '-' and the reason why it failed, for ranks that wait for the text.
constexpr char good = '+', bad = '-';
template <class Make>
std::string text_or_reason(Make make) {
    try {
        return good + make();
    } catch (const std::exception& e) {
        return bad + std::string(e.what());
    }
}

// Returns the plan that rank 0 makes. @throws plan_error on all ranks if it fails; the message begins with `what`
template <class Make>
plan plan_of_first(team& ranks, const std::string& what, Make make) {
    const std::string text = ranks.broadcast(ranks.rank() == 0 ? text_or_reason(make) : "");
    if (text.front() == bad) throw plan_error(fmt::format("{}: {}", what, text.substr(1)));
    return to_plan(parse_plan(std::string_view(text).substr(1), what));
}

// Describes the node on its first rank only, and sends each rank its place. If other ranks of the node have different
// addresses, the first of these is added to `address` (network_of_addresses).
std::string describe_node(team& node, int& place, std::string& address) {
    const auto n = static_cast<std::size_t>(node.size());
    const affinity own = own_affinity();
    address = address.substr(0, max_address + 1);
    std::vector<affinity> bound(n);
    const std::vector<std::string> all =
        node.exchange(std::string(reinterpret_cast<const char*>(own.data()), sizeof own) + address);
    for (std::size_t r = 0; r < n; ++r) {
        std::memcpy(bound[r].data(), all[r].data(), sizeof own);
        const std::string_view other = std::string_view(all[r]).substr(sizeof own);
        if (other != address && address.find('\0') == address.npos) (address += '\0') += other;
    }
    std::vector<int> order(n), places(n);
    std::string text;
    if (node.rank() == 0) text = text_or_reason([&] { return write_job_node(this_node(bound, order)); });
    for (std::size_t p = 0; p < n; ++p) places[static_cast<std::size_t>(order[p])] = static_cast<int>(p);
    const std::string received = node.broadcast({reinterpret_cast<const char*>(places.data()), n * sizeof(int)});
    std::memcpy(&place, received.data() + static_cast<std::size_t>(node.rank()) * sizeof(int), sizeof(int));
    return text;
}

struct nodes_of_job {
    std::vector<std::string> kinds;             // different descriptions
    std::vector<int> kind;                      // by node
    std::vector<std::string> hosts, addresses;  // by node
};

// Exchanges descriptions among the first ranks of all nodes. Equal texts are sent once.
nodes_of_job gather_nodes(const std::string& own, const std::string& address, team& leaders) {
    const std::uint64_t hash = hash_of(own.data(), own.size());
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(leaders.size()));
    leaders.gather_all(&hash, hashes.data(), sizeof hash);
    nodes_of_job found;
    std::map<std::uint64_t, int> kinds;
    for (const std::uint64_t h : hashes)
        found.kind.push_back(kinds.emplace(h, static_cast<int>(kinds.size())).first->second);
    const auto first = std::find(hashes.begin(), hashes.end(), hash) - hashes.begin();
    if (std::optional<team> speakers = leaders.split(first == leaders.rank() ? 0 : -1, 0))
        found.kinds = speakers->exchange(own);
    for (const std::string& node : leaders.exchange(host_name() + '\0' + address)) {
        found.hosts.push_back(node.substr(0, node.find('\0')));
        found.addresses.push_back(node.substr(found.hosts.back().size() + 1));
    }
    return found;
}

job_machine machine_of(const nodes_of_job& found) {
    std::vector<job_node> kinds;
    for (std::size_t k = 0; k < found.kinds.size(); ++k) {
        const std::string& text = found.kinds[k];
        const auto node = std::find(found.kind.begin(), found.kind.end(), static_cast<int>(k)) - found.kind.begin();
        if (text.front() == bad)
            throw plan_error(fmt::format("host \"{}\" cannot be described: {}",
                                         found.hosts[static_cast<std::size_t>(node)], text.substr(1)));
        kinds.push_back(read_job_node(std::string_view(text).substr(1)));
    }
    return machine_of_job(kinds, found.kind, found.hosts, found.addresses);
}

// Stores the machine in `found`. Returns the place of each node's first rank, as bytes of int.
std::string settle(job_machine made, job& found, const options& o) {
    if (!made.doubt.empty() && o.log)
        o.log(log_level::warn,
              fmt::format("the addresses of the job's nodes are not used, and one level between nodes is assumed: {}; "
                          "correct TERRACE_TOPOLOGY_ADDR, or give a plan",
                          made.doubt));
    const std::vector<int> sizes = made.machine.node_sizes();
    std::vector<int> first(sizes.size());
    int next = 0;
    for (std::size_t p = 0; p < sizes.size(); next += sizes[p++]) first[static_cast<std::size_t>(made.order[p])] = next;
    found.machine = std::move(made.machine);
    found.levels_from = std::move(made.levels_from);
    return {reinterpret_cast<const char*>(first.data()), first.size() * sizeof(int)};
}

}  // namespace

plan plan_part(const plan_data& whole, std::span<const int> ranks, team& part) {
    return plan_of_first(part, fmt::format("split: no plan for {} ranks", ranks.size()), [&] {
        return make_plan(fmt::format("{}.{}of{}", whole.name, ranks.size(), whole.machine.ranks()),
                         part_of(whole.machine, ranks))
            .text;
    });
}

job describe_job(team& ranks, const options& o) {
    const std::vector<int> nodes = ranks.nodes();
    const int leader = nodes[static_cast<std::size_t>(ranks.rank())];
    job found;
    team node = *ranks.split(leader, 0);
    std::string address = o.topology_address;
    const std::string own = describe_node(node, found.place, address);
    std::optional<team> leaders = ranks.split(leader == ranks.rank() ? 0 : -1, 0);
    const nodes_of_job all = leaders ? gather_nodes(own, address, *leaders) : nodes_of_job{};
    std::string firsts =
        ranks.rank() == 0 ? text_or_reason([&] { return settle(machine_of(all), found, o); }) : std::string();
    firsts = ranks.broadcast(firsts);
    if (firsts.front() == bad) throw plan_error("no plan was given, and the machine is unknown: " + firsts.substr(1));
    std::size_t number = 0;  // number of this node, in the order of lowest ranks
    for (int r = 0; r < leader; ++r) number += nodes[static_cast<std::size_t>(r)] == r;
    int first = 0;
    std::memcpy(&first, firsts.data() + 1 + number * sizeof(int), sizeof(int));
    found.place += first;
    return found;
}

plan plan_job(const job& found, team& ranks, const options& o, kept_plans* kept) {
    const std::string name =
        fmt::format("found at creation{}{}", found.levels_from.empty() ? "" : "; ", found.levels_from);
    const auto make = [&] { return make_plan(name, found.machine); };
    const auto warn = [&](std::string_view line) {
        if (o.log) o.log(log_level::warn, line);
    };
    plan made = plan_of_first(ranks, "no plan was given, and none can be made", [&] {
        if (kept != nullptr)
            if (const std::optional<plan_data> known = kept->find(name, found.machine)) return known->text;
        if (o.plan_cache.empty()) return make().text;
        return plan_cache(o.plan_cache).find_or_make(name, found.machine, make, warn).text;
    });
    if (kept != nullptr) kept->keep(data_of(made));
    return made;
}

}  // namespace terrace::detail
