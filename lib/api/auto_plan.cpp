#include "api/auto_plan.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "api/placement.hpp"
#include "base/hash.hpp"
#include "executor/agreement.hpp"
#include "executor/engine.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "schedule/compose.hpp"
#include "topology/job.hpp"
#include "transport/shm/cores.hpp"

namespace terrace {

namespace {

// Rank 0's text to all ranks: a broadcast by a plan of one stage.
void broadcast_text(std::string& text, transport& net) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(net.size()));
    const auto own = static_cast<std::int64_t>(text.size());
    net.gather_all(&own, lengths.data(), sizeof own);
    text.resize(static_cast<std::size_t>(lengths.front()));
    if (net.size() == 1) return;
    const hierarchy flat{{{.name = "all"}}, tree::uniform(std::vector{net.size()})};
    const stage one{.levels = {0}, .group = net.size(), .how = mode::root, .algorithm = "tree"};
    const composition mine = compose_for(net.rank(), flat, std::span(&one, 1), lengths.front(), 1, 0);
    const slicing whole{.chunk = 0, .chunks = 1, .tail = lengths.front()};
    program p({}, lower(generate(mine, collective::broadcast, net.rank()), {}), {.element = 1, .chunks = whole}, net);
    run_alone(p, net, text.data(), text.data());
}

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
plan plan_of_first(transport& net, const std::string& what, Make make) {
    std::string text = net.rank() == 0 ? text_or_reason(make) : "";
    broadcast_text(text, net);
    if (text.front() == bad) throw plan_error(fmt::format("{}: {}", what, text.substr(1)));
    return plan(std::make_shared<const recipe>(parse_plan(std::string_view(text).substr(1), what)));
}

// What the first rank of a node finds there; to all ranks of it their places.
std::string describe_node(transport& node, int& place) {
    const auto n = static_cast<std::size_t>(node.size());
    const affinity own = own_affinity();
    std::vector<affinity> bound(n);
    node.gather_all(own.data(), bound.data(), sizeof own);
    std::vector<int> order(n), places(n), all(n * n);
    std::string text;
    if (node.rank() == 0) text = text_or_reason([&] { return write_job_node(this_node(bound, order)); });
    for (std::size_t p = 0; p < n; ++p) places[static_cast<std::size_t>(order[p])] = static_cast<int>(p);
    node.gather_all(places.data(), all.data(), n * sizeof(int));
    place = all[static_cast<std::size_t>(node.rank())];
    return text;
}

struct nodes_of_job {
    std::vector<std::string> kinds;  // texts
    std::vector<int> kind;           // by node
    std::vector<std::string> hosts;  // by node
};

// Among the first ranks of all nodes. Equal texts travel once.
nodes_of_job gather_nodes(const std::string& own, transport& leaders) {
    const std::uint64_t hash = hash_of(own.data(), own.size());
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(leaders.size()));
    leaders.gather_all(&hash, hashes.data(), sizeof hash);
    nodes_of_job found;
    std::map<std::uint64_t, int> kinds;
    for (const std::uint64_t h : hashes)
        found.kind.push_back(kinds.emplace(h, static_cast<int>(kinds.size())).first->second);
    const auto first = std::find(hashes.begin(), hashes.end(), hash) - hashes.begin();
    const std::unique_ptr<transport> speakers = leaders.split(first == leaders.rank() ? 0 : -1, 0);
    if (speakers != nullptr) found.kinds = gather_texts(own, *speakers);
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

plan plan_part(const recipe& whole, std::span<const int> ranks, transport& net) {
    return plan_of_first(net, fmt::format("split: no plan for {} ranks", ranks.size()), [&] {
        return make_plan(fmt::format("{}.{}of{}", whole.name, ranks.size(), whole.machine.ranks()),
                         part_of(whole.machine, ranks))
            .text;
    });
}

job describe_job(transport& net) {
    const std::vector<int> nodes = net.nodes();
    const int leader = nodes[static_cast<std::size_t>(net.rank())];
    job found;
    const std::string own = describe_node(*net.split(leader, 0), found.place);
    found.place += static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [&](int n) { return n < leader; }));
    const std::unique_ptr<transport> leaders = net.split(leader == net.rank() ? 0 : -1, 0);
    const nodes_of_job all = leaders != nullptr ? gather_nodes(own, *leaders) : nodes_of_job{};
    std::string why = net.rank() == 0 ? text_or_reason([&] {
        found.machine = machine_of(all);
        return std::string();
    })
                                      : "";
    broadcast_text(why, net);
    if (why.front() == bad) throw plan_error("no plan was given, and the machine is unknown: " + why.substr(1));
    const int cores = shared_cores(net.size(), gathering_over(net));
    if (net.rank() == 0) found.machine.processors.cores = cores;
    return found;
}

plan plan_job(const job& found, transport& net) {
    return plan_of_first(net, "no plan was given, and none can be made",
                         [&] { return make_plan("found at creation", found.machine).text; });
}

}  // namespace terrace
