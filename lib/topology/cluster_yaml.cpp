#include "topology/cluster_yaml.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/hierarchy_yaml.hpp"

namespace terrace {

namespace {

constexpr int version = 1;

void check_version(const document& map) {
    expect_format(map.at("terrace_topology"), version, "update Terrace");
}

std::string read_name(const document& map) {
    const document entry = map.at("name");
    if (entry.text().empty()) entry.fail("a machine needs a name");
    return entry.text();
}

hierarchy read_node(const document& map, const std::filesystem::path& directory, const node_importer& import_node) {
    map.allow_only({"hwloc", "ranks"});
    const document ranks = map.at("ranks");
    const auto unit = parse_rank_unit(ranks.text());
    if (!unit) ranks.fail(fmt::format("ranks cannot be \"{}\"; they are one of {}", ranks.text(), rank_unit_names()));
    const document name = map.at("hwloc");
    try {
        return import_node(directory / name.text(), *unit);
    } catch (const input_error& e) {
        if (e.line() > 0) throw;
        name.fail(e.what());  // the file as a whole: perhaps another was meant
    }
}

// The machine whose nodes, the ranks of `above`, all look like `node`.
hierarchy with_nodes(const hierarchy& above, const hierarchy& node) {
    hierarchy whole{node.levels, {}, above.reduction};
    whole.levels.insert(whole.levels.end(), above.levels.begin(), above.levels.end());
    std::vector<std::vector<int>> children;
    for (const std::vector<int>& sizes : node.shape.children()) {
        std::vector<int>& repeated = children.emplace_back();
        for (int n = 0; n < above.ranks(); ++n) repeated.insert(repeated.end(), sizes.begin(), sizes.end());
    }
    children.insert(children.end(), above.shape.children().begin(), above.shape.children().end());
    whole.shape = tree(std::move(children));
    return whole;
}

void check_fits(const document& map, const hierarchy& above, const hierarchy& node) {
    const std::vector<document> items = map.at("levels").items();
    if (above.node_levels() > 0)
        items.front().at("fabric").fail(
            fmt::format("level \"{}\" ({}) lies inside a node, which the hwloc file describes; list only infiniband "
                        "and ethernet levels",
                        above.levels.front().name, to_string(above.levels.front().medium)));
    for (const document& item : items)
        for (const level& inner : node.levels)
            if (item.at("name").text() == inner.name)
                item.at("name").fail(
                    fmt::format("a level of the hwloc file is named \"{}\" too; rename this one", inner.name));
    if (above.depth() + node.depth() > max_levels)
        map.at("levels").fail(fmt::format("with {} inside the node more than {} levels", node.depth(), max_levels));
    if (std::int64_t{above.ranks()} * node.ranks() > max_ranks)
        map.at("levels").fail(
            fmt::format("{} nodes of {} ranks are more than {} ranks", above.ranks(), node.ranks(), max_ranks));
}

hierarchy read_machine(const document& map, const std::filesystem::path& directory, const node_importer& import_node) {
    if (!map.has("node")) return read_hierarchy(map);
    const hierarchy node = read_node(map.at("node"), directory, import_node);
    if (!map.has("levels")) {
        if (map.has("reduction"))
            map.at("reduction").fail("a node alone, which the hwloc file describes, has no levels to stand beside");
        if (map.has("tree"))
            map.at("tree").fail("tree says how levels above the node nest, but there are no levels; add them");
        return node;
    }
    const hierarchy above = read_hierarchy(map);
    check_fits(map, above, node);
    return with_nodes(above, node);
}

}  // namespace

topology read_cluster(const std::filesystem::path& file, const node_importer& import_node) {
    const document map = document::read_file(file);
    check_version(map);
    map.allow_only({"terrace_topology", "name", "levels", "tree", "node", "reduction"});
    return {read_name(map), read_machine(map, file.parent_path(), import_node)};
}

std::string write_cluster(const topology& t) {
    return fmt::format("terrace_topology: {}\nname: {}\n{}", version, yaml_scalar(t.name),
                       write_hierarchy(t.machine, 0));
}

}  // namespace terrace
