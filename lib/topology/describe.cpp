#include "topology/describe.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

#include "base/hosts.hpp"
#include "base/index.hpp"
#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "machine/likeness.hpp"

namespace terrace::detail {

namespace {

using json = nlohmann::ordered_json;

std::string counted(int n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string marked(const std::string& value, bool assumed) { return assumed ? value + " (assumed)" : value; }

// ---- Text -----------------------------------------------------------------------------------------------------------

std::string bandwidth_text(const level& l) {
    if (l.rates.empty()) return format_bandwidth(l.bandwidth);
    return fmt::format("{} to {}", format_bandwidth(*std::min_element(l.rates.begin(), l.rates.end())),
                       format_bandwidth(l.bandwidth));
}

std::string level_table(const hierarchy& h) {
    std::vector<std::vector<std::string>> rows{{"level", "fabric", "bandwidth", "latency", "overhead"}};
    for (const level& l : h.levels)
        rows.push_back({l.name, std::string(to_string(l.medium)) + (l.ring ? ", ring" : ""),
                        marked(bandwidth_text(l), l.bandwidth_assumed),
                        marked(format_duration(l.latency), l.latency_assumed),
                        marked(format_duration(l.overhead), l.overhead_assumed)});
    std::vector<std::size_t> widths(rows.front().size(), 0);
    for (const auto& row : rows)
        for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    std::string text;
    for (const auto& row : rows) {
        for (std::size_t c = 0; c + 1 < row.size(); ++c) text += fmt::format("{:<{}}  ", row[c], widths[c]);
        text += row.back() + "\n";
    }
    bool assumed = false;
    for (const level& l : h.levels)
        if (const std::string devices = device_rates_text(l); !devices.empty()) {
            text += fmt::format("buffers on GPUs, {}: {}\n", l.name, devices);
            assumed |= devices.find('*') != std::string::npos;
        }
    if (assumed) text += "* assumed\n";
    return text;
}

// Appends `count` equal domains, of which d is the first, and what is in one of them.
void append_domains(std::string& text, const hierarchy& h, const likeness& like, int l, int d, int count) {
    const tree& t = h.shape;
    const int indent = 2 * (t.depth() - l);
    text += fmt::format("{:{}}{}{}", "", indent, count > 1 ? fmt::format("{} x ", count) : "", h.levels[at(l)].name);
    if (l == 0) {
        text += fmt::format(" of {}\n", counted(t.children(l, d), "rank"));
        return;
    }
    text += "\n";
    const int end = t.first_child(l, d + 1);
    for (int first = t.first_child(l, d), next = first; first < end; first = next) {
        while (next < end && like.of(l - 1, next) == like.of(l - 1, first)) ++next;
        append_domains(text, h, like, l - 1, first, next - first);
    }
}

// ---- JSON -----------------------------------------------------------------------------------------------------------

// By node: the rates of its NICs, and which of them each of its ranks uses.
json nics_json(const hierarchy& h) {
    const nic_set& nics = h.nics;
    json rates = json::array(), of_rank = json::array();
    for (int node = 0, rank = 0; node < nics.nodes(); ++node) {
        json& of_node = rates.emplace_back(json::array());
        for (int nic = nics.first_of(node); nic < nics.first_of(node + 1); ++nic) of_node.push_back(nics.rate(nic));
        json& places = of_rank.emplace_back(json::array());
        for (; rank < h.ranks() && nics.node_of(nics.of(rank)) == node; ++rank)
            places.push_back(nics.rail_of(nics.of(rank)));
    }
    json made = {{"rates_bytes_per_s", std::move(rates)}, {"of_rank", std::move(of_rank)}, {"rails", nics.rails}};
    if (nics.spine > 0) made["spine_bytes_per_s"] = nics.spine;
    return made;
}

json level_json(const hierarchy& h, int l) {
    const level& v = h.levels[at(l)];
    json assumed = json::array();
    if (v.bandwidth_assumed) assumed.push_back("bandwidth");
    if (v.latency_assumed) assumed.push_back("latency");
    if (v.overhead_assumed) assumed.push_back("overhead");
    json made = {{"name", v.name},
                 {"fabric", to_string(v.medium)},
                 {"bandwidth_bytes_per_s", v.bandwidth},
                 {"latency_s", v.latency},
                 {"overhead_s", v.overhead},
                 {"assumed", std::move(assumed)},
                 {"node_level", l < h.node_levels()}};
    if (!v.rates.empty()) made["bandwidths_bytes_per_s"] = v.rates;
    if (l == h.node_levels() && !h.nics.empty()) made["nics"] = nics_json(h);
    return made;
}

json object_json(std::string_view kind, const std::string& name) {
    return {{"kind", kind}, {"name", name}, {"children", json::array()}};
}

// The parts below `p` that are objects of their own: caches, root complexes and slots only hold some.
void append_parts(json& children, const part& p, int first_rank, int ranks);

json part_json(const part& p, int first_rank, int ranks) {
    json object = {{"kind", to_string(p.what)}, {"name", p.name}};
    if (p.rank >= 0 && p.rank < ranks) {
        object["rank"] = first_rank + p.rank;
        if (!p.nearest_nic.empty()) object["nearest_nic"] = p.nearest_nic;
    }
    if (p.link > 0) object["pcie_bytes_per_s"] = p.link;
    if (p.rate > 0) object["network_bytes_per_s"] = p.rate;
    json& children = object["children"] = json::array();
    append_parts(children, p, first_rank, ranks);
    return object;
}

void append_parts(json& children, const part& p, int first_rank, int ranks) {
    for (const part& c : p.children) {
        const bool only_holds = c.what == part::kind::cache || c.what == part::kind::root || c.what == part::kind::slot;
        if (only_holds) append_parts(children, c, first_rank, ranks);
        else children.push_back(part_json(c, first_rank, ranks));
    }
}

// Writes what is below domain d of level l: networks' switches, nodes (machines), and what is in them as far as that is
// known.
class tree_writer {
public:
    explicit tree_writer(const topology& t) : t_(t), nodes_(t.machine.node_levels()) {}

    json whole() const {
        json machine = object_json("machine", t_.name);
        const int top = t_.machine.depth() - 1;
        if (top == nodes_ - 1) fill_node(machine["children"], 0);
        else machine["children"] = below(top, 0);
        return machine;
    }

private:
    json below(int l, int d) const {
        const hierarchy& h = t_.machine;
        json children = json::array();
        for (int c = h.shape.first_child(l, d); c < h.shape.first_child(l, d + 1); ++c) {
            if (l == nodes_) {
                json& node = children.emplace_back(
                    object_json("machine", h.hosts.empty() ? fmt::format("node {}", c) : h.hosts[at(c)]));
                fill_node(node["children"], c);
            } else if (l == 0) {
                json& rank = children.emplace_back(object_json("rank", fmt::format("rank {}", c)));
                rank["rank"] = c;
            } else {
                const level& inside = h.levels[at(l - 1)];
                json& domain = children.emplace_back(
                    object_json(l > nodes_ ? "switch" : "domain",
                                inside.names.empty() ? fmt::format("{} {}", inside.name, c) : inside.names[at(c)]));
                domain["children"] = below(l - 1, c);
            }
        }
        return children;
    }

    void fill_node(json& children, int node) const {
        const hierarchy& h = t_.machine;
        const int first = h.shape.first_rank(nodes_ - 1, node);
        const int ranks = (nodes_ == 0 ? node + 1 : h.shape.first_rank(nodes_ - 1, node + 1)) - first;
        if (const part* parts = t_.parts_of(node)) append_parts(children, *parts, first, ranks);
        else if (nodes_ > 0) children = below(nodes_ - 1, node);
    }

    const topology& t_;
    int nodes_;  // levels inside a node
};

// ---- Ranks of a node ------------------------------------------------------------------------------------------------

void find_ranks(const part& p, std::vector<const part*>& ranks) {
    if (p.rank >= 0) {
        if (ranks.size() <= at(p.rank)) ranks.resize(at(p.rank) + 1);
        ranks[at(p.rank)] = &p;
    }
    for (const part& c : p.children) find_ranks(c, ranks);
}

std::string rank_table(const part& node, const std::string& title) {
    constexpr std::size_t most = 32;
    std::vector<const part*> ranks;
    find_ranks(node, ranks);
    if (ranks.size() > most)
        return fmt::format("\n{}: {}, each a {}\n", title, ranks.size(), to_string(ranks.front()->what));
    std::string text = fmt::format("\n{}\n", title);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        text += fmt::format("  {:<3} {}", r, ranks[r]->name);
        if (!ranks[r]->nearest_nic.empty())
            text += fmt::format("  nearest NIC {} (same {})", ranks[r]->nearest_nic, to_string(ranks[r]->nic_within));
        text += "\n";
    }
    return text;
}

}  // namespace

std::string describe_text(const topology& t) {
    const hierarchy& h = t.machine;
    const likeness like(h.shape);
    std::string text = fmt::format("{}: {} in {}, {}\n\n{}\n{}\n", t.name, counted(h.ranks(), "rank"),
                                   counted(static_cast<int>(h.node_sizes().size()), "node"), shape_text(h.shape),
                                   level_table(h), t.name);
    append_domains(text, h, like, h.depth() - 1, 0, 1);
    if (!h.nics.empty())
        text += fmt::format("\nNICs of a node into {}: {}\n", h.levels[at(h.node_levels())].name, nics_text(h.nics));
    if (h.processors.reduction > 0)
        text += fmt::format("\nreduction: {} per rank\n", format_bandwidth(h.processors.reduction));
    if (h.processors.segment != processors{}.segment)
        text += fmt::format("\nsegment: {}, of longer messages\n", format_bytes(h.processors.segment));
    if (t.node) text += rank_table(*t.node, "ranks of a node");
    for (std::size_t type = 0; type < t.types.size(); ++type) {
        const auto nodes = std::count(t.type_of_node.begin(), t.type_of_node.end(), static_cast<int>(type));
        const std::string title =
            fmt::format("{} of type {}", counted(static_cast<int>(nodes), "node"), t.types[type].name);
        if (nodes > 0 && t.types[type].node) text += rank_table(*t.types[type].node, title + ", ranks of each");
        else if (nodes > 0) text += fmt::format("\n{}\n", title);
    }
    for (const level& l : h.levels)
        if (!l.names.empty()) text += fmt::format("\n{}: {}\n", l.name, fold_hosts(l.names));
    if (!h.hosts.empty()) text += fmt::format("\nhosts: {}\n", fold_hosts(h.hosts));
    for (const std::string& warning : t.warnings) text += fmt::format("\nwarning: {}\n", warning);
    for (const std::string& note : t.notes) text += fmt::format("\nnote: {}\n", note);
    return text;
}

std::string describe_json(const topology& t) {
    constexpr int most = 20'000;  // a few objects of about 1 KiB each stand for a rank
    const hierarchy& h = t.machine;
    if (h.ranks() > most)
        throw usage_error(
            fmt::format("a tree of {} ranks takes too much memory: at most {}; print a cluster file (--yaml), "
                        "or a part of the machine (--hosts)",
                        h.ranks(), most));
    json levels = json::array();
    for (int l = 0; l < h.depth(); ++l) levels.push_back(level_json(h, l));
    json machine = tree_writer(t).whole();
    json all = {{"kind", machine["kind"]},
                {"name", t.name},
                {"ranks", h.ranks()},
                {"nodes", h.node_sizes()},
                {"reduction_bytes_per_s", h.processors.reduction > 0 ? json(h.processors.reduction) : json(nullptr)},
                {"segment_bytes", h.processors.segment},
                {"hosts", h.hosts},
                {"levels", std::move(levels)},
                {"shape", h.shape.children()},
                {"warnings", t.warnings},
                {"notes", t.notes}};
    all["children"] = std::move(machine["children"]);
    return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace terrace::detail
