#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/text_parts.hpp"
#include "topology/formats.hpp"
#include "topology/formats/json_file.hpp"
#include "topology/formats/placed_nodes.hpp"

namespace terrace::detail {

namespace {

// A level, and the keys of the labels that give the places of nodes in it.
struct label_level {
    std::string name;
    std::vector<std::string> keys;
};

// The labels of one vendor or tool. The first scheme with a key in the file is used.
struct label_scheme {
    std::vector<label_level> levels;  // outermost first
};

const std::vector<label_scheme>& schemes() {
    static const std::vector<label_scheme> table{
        // topograph
        {{{"core", {"network.topology.nvidia.com/core", "fabric.topograph.run/tier-2"}},
          {"spine", {"network.topology.nvidia.com/spine", "fabric.topograph.run/tier-1"}},
          {"leaf", {"network.topology.nvidia.com/leaf", "fabric.topograph.run/tier-0"}},
          {"accelerator", {"network.topology.nvidia.com/accelerator", "accelerator.topograph.run/domain"}}}},
        // AWS
        {{{"core", {"topology.k8s.aws/network-node-layer-1"}},
          {"spine", {"topology.k8s.aws/network-node-layer-2"}},
          {"leaf", {"topology.k8s.aws/network-node-layer-3"}},
          {"leaf-2", {"topology.k8s.aws/network-node-layer-4"}}}},
        // GKE
        {{{"block", {"cloud.google.com/gce-topology-block"}},
          {"subblock", {"cloud.google.com/gce-topology-subblock"}},
          {"host", {"cloud.google.com/gce-topology-host"}}}},
        // OCI
        {{{"island", {"oci.oraclecloud.com/rdma.hpc_island_id"}},
          {"network-block", {"oci.oraclecloud.com/rdma.network_block_id"}},
          {"local-block", {"oci.oraclecloud.com/rdma.local_block_id"}}}},
        // CoreWeave
        {{{"fabric", {"backend.coreweave.cloud/fabric", "ib.coreweave.cloud/fabric"}},
          {"superpod", {"backend.coreweave.cloud/superpod", "ib.coreweave.cloud/superpod"}},
          {"leafgroup", {"backend.coreweave.cloud/leafgroup", "ib.coreweave.cloud/leafgroup"}},
          {"accelerator", {"ds.coreweave.com/nvlink.domain"}}}},
        // Nebius
        {{{"fabric", {"topology.nebius.com/gpu-cluster-id"}},
          {"spine", {"topology.nebius.com/tier-2"}},
          {"leaf", {"topology.nebius.com/tier-1"}},
          {"accelerator", {"topology.nebius.com/tier-0"}}}},
        // Volcano
        {{{"hypernode", {"volcano.sh/hypernode"}}}},
        {},  // only zones
    };
    return table;
}

// Returns a scheme with the user's own keys, outermost first. The name of a level is the end of its key.
label_scheme scheme_of(const std::vector<std::string>& keys) {
    label_scheme own;
    for (const std::string& key : keys) own.levels.push_back({key.substr(key.rfind('/') + 1), {key}});
    return own;
}

const label_level zone_label{"zone", {"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"}};

bool is_kept_of_kubernetes(std::string_view of, std::string_view key) {
    if (of.empty()) return key == "items" || key == "kind";
    if (of == "items") return key == "metadata" || key == "kind";
    return of == "labels" || (of == "metadata" && (key == "name" || key == "labels"));
}

std::string_view label_of(const json_value& metadata, const label_level& l) {
    const json_value* labels = metadata.find("labels");
    for (const std::string& key : l.keys)
        if (const json_value* value = labels ? labels->find(key) : nullptr) return value->text;
    return {};
}

bool is_labelled(const json_value& metadata, const label_scheme& s) {
    return std::ranges::any_of(s.levels, [&](const label_level& l) { return !label_of(metadata, l).empty(); });
}

// Returns the metadata of all nodes. The list may have objects of other kinds, which are skipped.
std::vector<const json_value*> nodes_of(const json_file& file) {
    std::vector<const json_value*> nodes;
    if (!file.root().find("items"))
        file.fail(file.root(), "no \"items\" here: a list of nodes is read, as kubectl get nodes -o json prints it");
    const json_value& items = file.at(file.root(), "items", json_value::kind::list);
    for (const json_value& item : items.items) {
        const json_value* what = item.find("kind");
        if (!what || what->text == "Node") nodes.push_back(&file.at(item, "metadata", json_value::kind::map));
    }
    if (nodes.empty()) file.fail(items, "there is no node in the list; print one with kubectl get nodes -o json");
    return nodes;
}

label_scheme scheme_of(const std::vector<const json_value*>& nodes) {
    for (const label_scheme& s : schemes())
        if (std::ranges::any_of(nodes, [&](const json_value* n) { return is_labelled(*n, s); })) return s;
    return schemes().back();
}

bool is_read(std::string_view key, const label_scheme& s) {
    const auto has = [&](const label_level& l) { return std::ranges::find(l.keys, key) != l.keys.end(); };
    return has(zone_label) || std::ranges::any_of(s.levels, has);
}

// True for keys with a word that is usual in labels of a network.
bool names_a_place(std::string_view key) {
    constexpr std::array<std::string_view, 12> words{"topology", "rack", "block", "leaf",   "spine",  "switch",
                                                     "island",   "tier", "pod",   "fabric", "domain", "hypernode"};
    return std::ranges::any_of(words, [&](std::string_view word) { return key.find(word) != key.npos; });
}

// Appends a note that lists the labels which group nodes, look like those of a network, and are not read.
void note_ignored_labels(const std::vector<const json_value*>& nodes, const label_scheme& scheme,
                         std::vector<std::string>& notes) {
    std::map<std::string_view, std::set<std::string_view>> values;  // by key
    for (const json_value* n : nodes)
        if (const json_value* labels = n->find("labels"))
            for (const auto& [key, value] : labels->entries)
                if (names_a_place(key) && !is_read(key, scheme)) values[key].insert(value.text);
    std::vector<std::pair<std::size_t, std::string_view>> ignored;
    for (const auto& [key, of_key] : values)
        if (of_key.size() > 1 && of_key.size() < nodes.size()) ignored.emplace_back(of_key.size(), key);
    std::ranges::sort(ignored);
    std::string list;
    for (const auto& [count, key] : ignored) list += fmt::format("{}{}", list.empty() ? "" : ",", key);
    if (!list.empty())
        notes.push_back(
            fmt::format("labels that may say more of the network are not read; --labels {} does, outermost "
                        "first",
                        list));
}

// Appends a note for each level whose label some nodes lack.
void note_partly_labelled(const std::vector<const json_value*>& nodes, const label_scheme& scheme,
                          std::vector<std::string>& notes) {
    for (const label_level& l : scheme.levels) {
        const auto lacks = [&](const json_value* n) { return label_of(*n, l).empty(); };
        const std::ptrdiff_t count = std::ranges::count_if(nodes, lacks);
        if (count > 0 && count < std::ssize(nodes))
            notes.push_back(fmt::format(
                "{} of {} nodes, as \"{}\", have no label of level \"{}\"; those in one place "
                "are read as one {}",
                count, nodes.size(), (*std::ranges::find_if(nodes, lacks))->find("name")->text, l.name, l.name));
    }
}

// Appends the places of nodes by the labels of one level. Labels with lists give several levels: Volcano's label has
// all places of a node in one text, innermost first, as "s0,s4,s6".
void append_places(const std::vector<const json_value*>& all, const label_level& l, std::vector<placed_node>& nodes,
                   std::vector<std::string>& levels) {
    std::vector<std::vector<std::string_view>> places;
    std::size_t depth = 0;
    for (const json_value* n : all) depth = std::max(depth, places.emplace_back(split_at(',', label_of(*n, l))).size());
    for (std::size_t d = depth; d-- > 0;) {
        levels.push_back(d == 0 ? l.name : fmt::format("{}-{}", l.name, d + 1));
        for (std::size_t n = 0; n < nodes.size(); ++n)
            nodes[n].within.emplace_back(d < places[n].size() ? places[n][d] : "");
    }
}

// Without hosts of a job, leaves out nodes without labels if others have some; most of them are control planes.
switch_network read_kubernetes(const std::string& path, const read_options& options) {
    const json_file file(path, is_kept_of_kubernetes);
    std::vector<const json_value*> all = nodes_of(file);
    const label_scheme scheme = options.labels.empty() ? scheme_of(all) : scheme_of(options.labels);
    const auto name_of = [&](const json_value& n) { return file.at(n, "name", json_value::kind::text).text; };
    for (const label_level& l : scheme.levels)
        if (!options.labels.empty() && std::ranges::all_of(all, [&](auto* n) { return label_of(*n, l).empty(); }))
            throw usage_error(fmt::format("--labels: no node in {} has the label \"{}\"", path, l.keys.front()));
    std::vector<std::string> notes;
    if (options.hosts.empty() && !scheme.levels.empty()) {
        const auto unlabelled =
            std::stable_partition(all.begin(), all.end(), [&](const json_value* n) { return is_labelled(*n, scheme); });
        if (unlabelled != all.end())
            notes.push_back(
                fmt::format("nodes without labels of the network are left out: {}, as \"{}\"; --hosts takes them in",
                            all.end() - unlabelled, name_of(**unlabelled)));
        all.erase(unlabelled, all.end());
    }
    std::vector<std::string> levels;
    std::vector<placed_node> nodes;
    for (const json_value* n : all) nodes.push_back({n->where, name_of(*n), {}});
    note_partly_labelled(all, scheme, notes);
    note_ignored_labels(all, scheme, notes);
    append_places(all, zone_label, nodes, levels);
    for (const label_level& l : scheme.levels) append_places(all, l, nodes, levels);
    switch_network result = network_of(path, std::move(nodes), std::move(levels));
    result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
    if (std::ranges::find(result.levels, "accelerator") != result.levels.end())
        result.notes.push_back(
            "an \"accelerator\" is one NVLink domain of several nodes; its rates are assumed as those "
            "of InfiniBand");
    return result;
}

bool is_kubernetes(const source_start& start) {
    return start.is_file && start.text.starts_with('{') && start.text.find("\"apiVersion\"") != start.text.npos;
}

}  // namespace

topology_format kubernetes_format() {
    return {"kubernetes", "Kubernetes' list of nodes (JSON)", is_kubernetes, read_kubernetes};
}

}  // namespace terrace::detail
