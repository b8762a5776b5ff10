#include "api/auto_plan.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "api/placement.hpp"
#include "api/plan_cache.hpp"
#include "base/hash.hpp"
#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "topology/job.hpp"

namespace terrace::detail {

namespace {

// A text, or why there is none: what one rank alone makes and others wait for.
constexpr char good = '+', bad = '-';
template <class Make>
std::string text_or_reason(Make make) {
    try {
        return good + make();
    } catch (const std::exception& e) {
        return bad + std::string(e.what());
    }
}

// The plan that rank 0 makes. `what` begins the message where it cannot.
template <class Make>
plan plan_of_first(team& ranks, const std::string& what, Make make) {
    const std::string text = ranks.broadcast(ranks.rank() == 0 ? text_or_reason(make) : "");
    if (text.front() == bad) throw plan_error(fmt::format("{}: {}", what, text.substr(1)));
    return to_plan(parse_plan(std::string_view(text).substr(1), what));
}

// Describes the node, on its first rank alone, and tells each of its ranks its place.
std::string describe_node(team& node, int& place) {
    const auto n = static_cast<std::size_t>(node.size());
    const affinity own = own_affinity();
    std::vector<affinity> bound(n);
    node.gather_all(own.data(), bound.data(), sizeof own);
    std::vector<int> order(n), places(n);
    std::string text;
    if (node.rank() == 0) text = text_or_reason([&] { return write_job_node(this_node(bound, order)); });
    for (std::size_t p = 0; p < n; ++p) places[static_cast<std::size_t>(order[p])] = static_cast<int>(p);
    const std::string told = node.broadcast({reinterpret_cast<const char*>(places.data()), n * sizeof(int)});
    std::memcpy(&place, told.data() + static_cast<std::size_t>(node.rank()) * sizeof(int), sizeof(int));
    return text;
}

struct nodes_of_job {
    std::vector<std::string> kinds;  // texts
    std::vector<int> kind;           // by node
    std::vector<std::string> hosts;  // by node
};

// Among the first ranks of all nodes. Equal texts travel once.
nodes_of_job gather_nodes(const std::string& own, team& leaders) {
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
    found.hosts = host_names(leaders);
    return found;
}

hierarchy machine_of(const nodes_of_job& found) {
    std::vector<job_node> kinds;
    for (std::size_t k = 0; k < found.kinds.size(); ++k) {
        const std::string& text = found.kinds[k];
        const auto node = std::find(found.kind.begin(), found.kind.end(), static_cast<int>(k)) - found.kind.begin();
        if (text.front() == bad)
            throw plan_error(fmt::format("host \"{}\" cannot be described: {}",
                                         found.hosts[static_cast<std::size_t>(node)], text.substr(1)));
        kinds.push_back(read_job_node(std::string_view(text).substr(1)));
    }
    return machine_of_job(kinds, found.kind, found.hosts);
}

}  // namespace

plan plan_part(const plan_data& whole, std::span<const int> ranks, team& part) {
    return plan_of_first(part, fmt::format("split: no plan for {} ranks", ranks.size()), [&] {
        return make_plan(fmt::format("{}.{}of{}", whole.name, ranks.size(), whole.machine.ranks()),
                         part_of(whole.machine, ranks))
            .text;
    });
}

job describe_job(team& ranks) {
    const std::vector<int> nodes = ranks.nodes();
    const int leader = nodes[static_cast<std::size_t>(ranks.rank())];
    job found;
    team node = *ranks.split(leader, 0);
    const std::string own = describe_node(node, found.place);
    found.place += static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [&](int n) { return n < leader; }));
    std::optional<team> leaders = ranks.split(leader == ranks.rank() ? 0 : -1, 0);
    const nodes_of_job all = leaders ? gather_nodes(own, *leaders) : nodes_of_job{};
    std::string why = ranks.rank() == 0 ? text_or_reason([&] {
        found.machine = machine_of(all);
        return std::string();
    })
                                        : "";
    why = ranks.broadcast(why);
    if (why.front() == bad) throw plan_error("no plan was given, and the machine is unknown: " + why.substr(1));
    return found;
}

plan plan_job(const job& found, team& ranks, const options& o, kept_plans* kept) {
    const std::string name = "found at creation";
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
