#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/letters.hpp"
#include "base/text_parts.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/formats.hpp"
#include "topology/formats/slurm_blocks.hpp"

namespace terrace::detail {

namespace {

constexpr std::array<std::string_view, 5> slurm_kinds{"tree", "block", "flat", "ring", "torus3d"};

text_position place_of(const document& d) { return {d.line(), d.column()}; }

// One item of the file.
struct named_topology {
    document entry;
    std::string name;
    std::string_view kind;  // one of `slurm_kinds`
    bool is_default;
};

bool read_bool(const document& d) {
    if (same_word(d.text(), "true")) return true;
    if (same_word(d.text(), "false")) return false;
    d.fail(fmt::format("\"{}\" is neither true nor false", d.text()));
}

named_topology read_entry(const document& entry) {
    entry.allow_only({"topology", "cluster_default", "tree", "block", "flat", "ring", "torus3d"});
    named_topology t{
        entry, entry.at("topology").text(), {}, entry.has("cluster_default") && read_bool(entry.at("cluster_default"))};
    for (const std::string_view kind : slurm_kinds) {
        if (!entry.has(kind)) continue;
        if (!t.kind.empty())
            entry.at(kind).fail(fmt::format("topology \"{}\" is {} already; give it one kind", t.name, t.kind));
        t.kind = kind;
    }
    if (t.kind.empty())
        entry.fail(fmt::format("topology \"{}\" has no kind: {}", t.name, fmt::join(slurm_kinds, ", ")));
    return t;
}

std::vector<named_topology> read_entries(const document& file) {
    std::vector<named_topology> all;
    for (const document& entry : file.is_map() ? std::vector{file} : file.items()) {
        named_topology t = read_entry(entry);
        if (std::ranges::any_of(all, [&](const named_topology& other) { return other.name == t.name; }))
            entry.at("topology").fail(fmt::format("topology \"{}\" is there twice; rename one", t.name));
        all.push_back(std::move(t));
    }
    if (all.empty()) file.fail("the list is empty; add a topology");
    return all;
}

std::vector<std::string> names_in(const document& map, std::string_view key, name_lists& lists) {
    if (!map.has(key)) return {};
    const document list = map.at(key);
    try {
        return lists.expand(list.text());
    } catch (const usage_error& e) {
        list.fail(e.what());
    }
}

void read_tree(switch_network& n, const document& tree) {
    tree.allow_only({"switches"});
    name_lists lists;
    for (const document& s : tree.at("switches").items()) {
        s.allow_only({"switch", "children", "nodes"});
        n.switches.push_back(
            {place_of(s), s.at("switch").text(), names_in(s, "nodes", lists), names_in(s, "children", lists)});
    }
    if (n.switches.empty()) tree.at("switches").fail("no switches; add one");
}

void read_blocks(switch_network& n, const document& block) {
    block.allow_only({"block_sizes", "blocks"});
    name_lists lists;
    for (const document& b : block.at("blocks").items()) {
        b.allow_only({"block", "nodes"});
        n.switches.push_back({place_of(b), b.at("block").text(), names_in(b, "nodes", lists)});
    }
    std::vector<slurm_block_size> sizes;
    if (block.has("block_sizes"))
        for (const document& size : block.at("block_sizes").items())
            sizes.push_back({place_of(size), static_cast<int>(size.integer(1, max_ranks))});
    join_blocks(n, sizes);
}

switch_network read_topology(const named_topology& t) {
    switch_network n{t.entry.file()};
    const document content = t.entry.at(t.kind);
    if (t.kind == "tree") read_tree(n, content);
    else if (t.kind == "block") read_blocks(n, content);
    else
        content.fail(
            fmt::format("topology \"{}\" is {}, which says nothing that is read: only tree and block are; "
                        "choose another with --network-name, or write a cluster file{}",
                        t.name, t.kind, t.kind == "torus3d" ? " (torus:)" : ""));
    return n;
}

const named_topology& find_topology(const std::vector<named_topology>& all, const document& file,
                                    const std::string& name) {
    std::vector<std::string_view> names;
    for (const named_topology& t : all) {
        if (t.name == name) return t;
        names.push_back(t.name);
    }
    file.fail(fmt::format("there is no topology \"{}\" (--network-name), only {}", name, fmt::join(names, ", ")));
}

// Reads the named topology; else the default, or the first other one with all hosts if the default lacks some.
switch_network read_slurm_yaml(const std::string& path, const read_options& options) {
    const document file = document::read_file(path);
    const std::vector<named_topology> all = read_entries(file);
    const auto chosen = std::ranges::find_if(all, &named_topology::is_default);
    const named_topology* t = chosen == all.end() ? &all.front() : &*chosen;
    if (!options.network_name.empty()) t = &find_topology(all, file, options.network_name);
    switch_network n = read_topology(*t);
    if (options.network_name.empty() && !has_all(n, options.hosts))
        for (const named_topology& other : all) {
            if (&other == t || (other.kind != "tree" && other.kind != "block")) continue;
            switch_network candidate = read_topology(other);
            if (!has_all(candidate, options.hosts)) continue;
            n = std::move(candidate);
            t = &other;
            break;
        }
    if (all.size() == 1) return n;
    std::vector<std::string_view> others;
    for (const named_topology& other : all)
        if (&other != t) others.push_back(other.name);
    n.notes.insert(n.notes.begin(), fmt::format("topology \"{}\" of the file is read; --network-name chooses another "
                                                "one: {}",
                                                t->name, fmt::join(others, ", ")));
    return n;
}

// True if the first key of the file, or of the first item of its list, is `topology`.
bool is_slurm_yaml(const source_start& start) {
    if (!start.is_file) return false;
    std::string_view text = start.text;
    while (text.starts_with('#') || text.starts_with("---"))
        text = without_leading_blanks(text.substr(std::min(text.find('\n'), text.size())));
    if (text.starts_with('-')) text = without_leading_blanks(text.substr(1));
    return text.starts_with("topology:");
}

}  // namespace

topology_format slurm_yaml_format() { return {"slurm_yaml", "Slurm's topology.yaml", is_slurm_yaml, read_slurm_yaml}; }

}  // namespace terrace::detail
