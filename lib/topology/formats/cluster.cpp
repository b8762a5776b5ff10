#include "topology/formats/cluster.hpp"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/domains.hpp"
#include "topology/nodes.hpp"

namespace terrace::detail {

namespace {

constexpr int version = 1;

// Returns the ways to describe a node as text: "hwloc: FILE, nccl: FILE or synthetic: ...".
std::string ways_to_describe() {
    std::vector<std::string> ways;
    for (const topology_format& f : topology_formats())
        if (f.describes_node())
            ways.push_back(f.line.empty() ? fmt::format("{}: FILE", f.name)
                                          : fmt::format("{}: \"{}\"", f.name, f.line));
    std::string text = ways.back();
    for (std::size_t i = ways.size() - 1; i-- > 0;)
        text = fmt::format("{}{}{}", ways[i], i + 2 == ways.size() ? " or " : ", ", text);
    return text;
}

std::optional<rank_unit> read_unit(const document& map) {
    if (!map.has("ranks")) return {};
    const document ranks = map.at("ranks");
    const auto unit = parse_rank_unit(ranks.text());
    if (!unit) ranks.fail(fmt::format("ranks cannot be \"{}\"; they are one of {}", ranks.text(), rank_unit_names()));
    return unit;
}

// Sets the GPU links that the node's file does not give: switches connect all GPUs at this rate, or there are none.
void add_nvlink(hardware& h, const document& rate) {
    if (!h.wires.empty() && h.wires_assumed.empty())
        rate.fail("the node's file has the links between its GPUs; leave this out");
    link_gpus(h, rate.text() == "none" ? gpu_fabric{"none"} : gpu_fabric{"nvlink", read_bandwidth(rate)});
}

topology read_node(const document& map, const std::filesystem::path& directory, const node_reader& read) {
    std::vector<std::string_view> keys{"ranks", "nvlink"};
    for (const topology_format& f : topology_formats())
        if (f.describes_node()) keys.push_back(f.name);
    map.allow_only(keys);
    const topology_format* chosen = nullptr;
    for (const topology_format& f : topology_formats()) {
        if (!map.has(f.name)) continue;
        if (chosen) map.at(f.name).fail(fmt::format("the node has a description already ({})", chosen->name));
        chosen = &f;
    }
    if (!chosen) map.fail(fmt::format("a node needs a description: {}", ways_to_describe()));
    const document source = map.at(chosen->name);
    const std::optional<rank_unit> unit = read_unit(map);
    const std::string what = chosen->line.empty() ? (directory / source.text()).string() : source.text();
    try {
        hardware h = read(*chosen, what);
        if (map.has("nvlink")) add_nvlink(h, map.at("nvlink"));
        return single_node("", place_ranks(std::move(h), unit, what));
    } catch (const input_error& e) {
        if (e.line() > 0) throw;
        source.fail(e.what());  // concerns the file as a whole: report it at the file's name
    }
}

void check_fits(const document& map, const hierarchy& above, const hierarchy& inside) {
    const std::vector<document> items = map.at("levels").items();
    if (above.node_levels() > 0)
        items.front().at("fabric").fail(
            fmt::format("level \"{}\" ({}) lies inside a node, which the node's file describes; list only infiniband "
                        "and ethernet levels",
                        above.levels.front().name, to_string(above.levels.front().medium)));
    for (const document& item : items)
        for (const level& inner : inside.levels)
            if (item.at("name").text() == inner.name)
                item.at("name").fail(
                    fmt::format("a level of the node's file is named \"{}\" too; rename this one", inner.name));
}

// Returns a dimension as a level. A child has `nodes` nodes, and the links of all of them together.
level dimension(const document& of, std::size_t index, int size, double nodes) {
    of.allow_only({"fabric", "bandwidth", "latency", "overhead"});
    level l;
    l.name = fmt::format("dim{}", index + 1);
    const auto medium = parse_fabric(of.at("fabric").text());
    if (!medium) of.at("fabric").fail(unknown_fabric(of.at("fabric").text()));
    if (!between_nodes(*medium)) of.at("fabric").fail("a torus connects nodes: infiniband or ethernet");
    l.medium = *medium;
    const rates usual = default_rates(l.medium);
    const auto given = [&](const char* key, double otherwise, bool& assumed, const auto& read) {
        assumed = !of.has(key);
        return assumed ? otherwise : read(of.at(key));
    };
    const double links = nodes * (size > 2 ? 2 : 1);
    const auto read_link = [&](const document& entry) { return read_bandwidth(entry, links); };
    l.bandwidth = links * given("bandwidth", usual.bandwidth, l.bandwidth_assumed, read_link);
    l.latency = given("latency", usual.latency, l.latency_assumed, read_latency);
    l.overhead = given("overhead", usual.overhead, l.overhead_assumed, read_overhead);
    l.ring = true;
    return normalised(std::move(l));
}

// Reads `torus: [8, 8, 4]` and `links:`, one entry for all dimensions or one for each.
hierarchy read_torus(const document& map) {
    hierarchy h;
    const std::vector<document> sizes = map.at("torus").items();
    const document links = map.at("links");
    const std::vector<document> each = links.is_sequence() ? links.items() : std::vector{links};
    if (sizes.empty()) map.at("torus").fail("a torus has at least one dimension");
    if (each.size() != 1 && each.size() != sizes.size())
        links.fail(fmt::format("{} links for {} dimensions; give one for all, or one each", each.size(), sizes.size()));
    if (sizes.size() > max_levels) map.at("torus").fail(fmt::format("more than {} dimensions", max_levels));
    std::vector<int> shape;
    double nodes = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
        shape.push_back(static_cast<int>(sizes[d].integer(2, max_ranks)));
        h.levels.push_back(dimension(each[each.size() == 1 ? 0 : d], d, shape.back(), nodes));
        nodes *= shape.back();
        if (nodes > max_ranks) sizes[d].fail(fmt::format("more than {} nodes", max_ranks));
    }
    h.shape = tree::uniform(shape);
    h.processors = read_processors(map);
    return h;
}

// Reads the levels inside one of many equal nodes.
hierarchy read_inside(const document& map) {
    hierarchy inside = read_hierarchy(map);
    if (inside.node_levels() < inside.depth())
        map.at("levels").fail("these are the levels inside a node: no infiniband, no ethernet");
    if (!inside.hosts.empty())
        map.at("levels").fail(
            "these are the levels of many nodes, and hosts: names one; leave it out, and name nodes in "
            "domains:");
    return inside;
}

// Reads a torus, whose nodes are described by a file or by levels, or are one rank each.
topology read_torus_machine(const document& map, const std::filesystem::path& directory, const node_reader& read) {
    hierarchy above = read_torus(map);
    for (const char* key : {"tree", "domains", "nodes"})
        if (map.has(key)) map.at(key).fail("a torus has its shape already; leave this out");
    if (map.has("node") && map.has("levels"))
        map.at("levels").fail("the node's file has the levels inside it; leave these out");
    if (map.has("node")) return with_nodes(above, read_node(map.at("node"), directory, read));
    if (!map.has("levels")) return {"", std::move(above), nullptr, {}};
    return with_nodes(above, {"", read_inside(map), nullptr, {}});
}

// Reads a node type: a description, its levels, or the number of ranks that share memory.
topology read_type(const document& entry, const std::filesystem::path& directory, const node_reader& read) {
    if (entry.is_scalar()) {
        const auto ranks = static_cast<int>(entry.integer(1, max_ranks));
        return {"", {{usual_level("node", fabric::shm)}, tree::uniform(std::vector{ranks})}, nullptr, {}};
    }
    if (!entry.has("levels")) return read_node(entry, directory, read);
    entry.allow_only({"levels", "tree"});
    return {"", read_inside(entry), nullptr, {}};
}

// Reads `domains:`, and `nodes:` if nodes have types.
topology read_written_out(const document& map, const std::filesystem::path& directory, const node_reader& read) {
    constexpr std::size_t most_types = 16;
    if (map.has("tree")) map.at("tree").fail("domains: says how the machine is built; leave this out");
    if (map.has("node")) map.at("node").fail("with domains: nodes have types; write nodes: {NAME: {hwloc: FILE}}");
    std::vector<topology> types;
    std::vector<std::string> names;
    if (map.has("nodes"))
        for (const auto& [name, entry] : map.at("nodes").entries()) {
            if (types.size() == most_types) entry.fail(fmt::format("more than {} node types", most_types));
            types.push_back(read_type(entry, directory, read));
            types.back().name = name;
            names.push_back(name);
        }
    if (map.has("nodes") && types.empty()) map.at("nodes").fail("no node types; declare one, or leave this out");
    written_out w = read_domains(map, names);
    topology t{"", {}, nullptr, {}};
    if (types.empty()) t.machine = std::move(w.machine);
    else try {
            t = with_nodes(w.machine, std::move(types), std::move(w.node_type));
        } catch (const usage_error& e) {
            map.at("nodes").fail(e.what());
        }
    t.notes.insert(t.notes.begin(), w.notes.begin(), w.notes.end());
    return t;
}

topology read_machine(const document& map, const std::filesystem::path& directory, const node_reader& read) {
    if (map.has("torus")) try {
            return read_torus_machine(map, directory, read);
        } catch (const usage_error& e) {
            map.at("torus").fail(e.what());
        }
    if (map.has("links")) map.at("links").fail("these are links of a torus; add torus: [8, 8, 4], or leave this out");
    if (map.has("domains")) return read_written_out(map, directory, read);
    if (map.has("nodes"))
        map.at("nodes").fail("which node is of which type is said by domains:; add it, or write node:");
    if (!map.has("node")) return {"", read_hierarchy(map), nullptr, {}};
    topology inside = read_node(map.at("node"), directory, read);
    if (!map.has("levels")) {
        for (const char* key : {"reduction", "segment"})
            if (map.has(key))
                map.at(key).fail("a node alone, which the node's file describes, has no levels to stand beside");
        if (map.has("tree"))
            map.at("tree").fail("tree says how levels above the node nest, but there are no levels; add them");
        return inside;
    }
    const hierarchy above = read_hierarchy(map, true);
    check_fits(map, above, inside.machine);
    try {
        return with_nodes(above, std::move(inside));
    } catch (const usage_error& e) {
        map.at("levels").fail(e.what());
    }
}

}  // namespace

topology read_cluster(const std::filesystem::path& file, const node_reader& read) {
    const document map = document::read_file(file);
    if (!map.is_map() || !map.has("terrace_topology"))
        map.fail(
            fmt::format("\"terrace_topology\" is missing, with which a cluster file begins; if it is to be "
                        "another description of machines, these are read: {}",
                        format_descriptions()));
    expect_format(map.at("terrace_topology"), version, "update Terrace");
    if (map.has("hosts")) map.at("hosts").fail("hosts are named at the level whose domains are nodes: move it there");
    map.allow_only({"terrace_topology", "name", "levels", "tree", "domains", "torus", "links", "node", "nodes",
                    "reduction", "segment"});
    const document name = map.at("name");
    if (name.text().empty()) name.fail("a machine needs a name");
    topology t = read_machine(map, file.parent_path(), read);
    t.name = name.text();
    return t;
}

std::string write_cluster(const topology& t) {
    return fmt::format("terrace_topology: {}\nname: {}\n{}", version, yaml_scalar(t.name),
                       write_hierarchy(t.machine, 0));
}

topology_format cluster_format() {
    return {"cluster", "a cluster file (YAML)",
            [](const source_start& start) { return start.is_file && !start.text.starts_with('<'); },
            [](const std::string& file, const read_options& options) { return read_cluster(file, options.read_node); }};
}

}  // namespace terrace::detail
