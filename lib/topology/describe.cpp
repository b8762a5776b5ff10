#include "topology/describe.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

std::string level_table(const hierarchy& h) {
    std::vector<std::vector<std::string>> rows{{"level", "fabric", "bandwidth", "latency", "overhead"}};
    for (const level& l : h.levels)
        rows.push_back({l.name, fabric_text(l), marked(bandwidth_text(l), l.bandwidth_assumed),
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

// Appends `count` equal domains of level l, the first of which is d, and the contents of one of them.
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

// Returns, by node, the rates of its NICs and the NIC that each of its ranks uses.
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

std::string fabric_text(const level& l) { return std::string(to_string(l.medium)) + (l.ring ? ", ring" : ""); }

std::string bandwidth_text(const level& l) {
    if (l.rates.empty()) return format_bandwidth(l.bandwidth);
    return fmt::format("{} to {}", format_bandwidth(std::ranges::min(l.rates)), format_bandwidth(l.bandwidth));
}

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
    const hierarchy& h = t.machine;
    json levels = json::array();
    for (int l = 0; l < h.depth(); ++l) levels.push_back(level_json(h, l));
    const json all = {
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
    return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace terrace::detail
