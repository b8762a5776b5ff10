#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "topology/formats.hpp"
#include "topology/formats/json_file.hpp"
#include "topology/formats/placed_nodes.hpp"

namespace terrace::detail {

namespace {

using json_kind = json_value::kind;

// Labels of one level, under the keys that there are for it.
struct label_level {
    std::string_view name;
    std::array<std::string_view, 2> keys;
};

// Who labels nodes, and how. The first whose keys a file has is read.
struct label_scheme {
    std::string_view owner;
    std::vector<label_level> levels;  // outermost first
};

const std::vector<label_scheme>& schemes() {
    static const std::vector<label_scheme> table{
        {"topograph",
         {{"core", {"network.topology.nvidia.com/core", "fabric.topograph.run/tier-2"}},
          {"spine", {"network.topology.nvidia.com/spine", "fabric.topograph.run/tier-1"}},
          {"leaf", {"network.topology.nvidia.com/leaf", "fabric.topograph.run/tier-0"}},
          {"accelerator", {"network.topology.nvidia.com/accelerator", "accelerator.topograph.run/domain"}}}},
        {"AWS",
         {{"core", {"topology.k8s.aws/network-node-layer-1"}},
          {"spine", {"topology.k8s.aws/network-node-layer-2"}},
          {"leaf", {"topology.k8s.aws/network-node-layer-3"}},
          {"leaf-2", {"topology.k8s.aws/network-node-layer-4"}}}},
        {"GKE",
         {{"block", {"cloud.google.com/gce-topology-block"}},
          {"subblock", {"cloud.google.com/gce-topology-subblock"}},
          {"host", {"cloud.google.com/gce-topology-host"}}}},
        {"zones", {}},
    };
    return table;
}

constexpr label_level zone_label{"zone", {"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"}};

bool is_kept_of_kubernetes(std::string_view of, std::string_view key) {
    if (of.empty()) return key == "items" || key == "kind";
    if (of == "items") return key == "metadata" || key == "kind";
    return of == "labels" || (of == "metadata" && (key == "name" || key == "labels"));
}

std::string label_of(const json_value& metadata, const label_level& l) {
    const json_value* labels = metadata.find("labels");
    for (const std::string_view key : l.keys)
        if (const json_value* value = labels && !key.empty() ? labels->find(key) : nullptr) return value->text;
    return {};
}

bool is_labelled(const json_value& metadata, const label_scheme& s) {
    return std::ranges::any_of(s.levels, [&](const label_level& l) { return !label_of(metadata, l).empty(); });
}

// The metadata of all nodes; a list of objects of several kinds may hold others.
std::vector<const json_value*> nodes_of(const json_file& file) {
    std::vector<const json_value*> nodes;
    if (!file.root().find("items"))
        file.fail(file.root(), "no \"items\" here: a list of nodes is read, as kubectl get nodes -o json prints it");
    const json_value& items = file.at(file.root(), "items", json_kind::list);
    for (const json_value& item : items.items) {
        const json_value* what = item.find("kind");
        if (!what || what->text == "Node") nodes.push_back(&file.at(item, "metadata", json_kind::map));
    }
    if (nodes.empty()) file.fail(items, "there is no node in the list; print one with kubectl get nodes -o json");
    return nodes;
}

const label_scheme& scheme_of(const std::vector<const json_value*>& nodes) {
    for (const label_scheme& s : schemes())
        if (std::ranges::any_of(nodes, [&](const json_value* n) { return is_labelled(*n, s); })) return s;
    return schemes().back();
}

// Without hosts of a job, nodes without labels among others that have some are left out: control planes, for the most.
switch_network read_kubernetes(const std::string& path, const read_options& options) {
    const json_file file(path, is_kept_of_kubernetes);
    std::vector<const json_value*> all = nodes_of(file);
    const label_scheme& scheme = scheme_of(all);
    std::vector<std::string> notes;
    if (options.hosts.empty() && !scheme.levels.empty()) {
        const auto unlabelled =
            std::stable_partition(all.begin(), all.end(), [&](const json_value* n) { return is_labelled(*n, scheme); });
        if (unlabelled != all.end())
            notes.push_back(
                fmt::format("nodes without labels of the network are left out: {}, as \"{}\"; --hosts takes "
                            "them in",
                            all.end() - unlabelled, file.at(**unlabelled, "name", json_kind::text).text));
        all.erase(unlabelled, all.end());
    }
    std::vector<std::string> levels{std::string(zone_label.name)};
    for (const label_level& l : scheme.levels) levels.emplace_back(l.name);
    std::vector<placed_node> nodes;
    for (const json_value* n : all) {
        placed_node node{n->where, file.at(*n, "name", json_kind::text).text, {label_of(*n, zone_label)}};
        for (const label_level& l : scheme.levels) node.within.push_back(label_of(*n, l));
        nodes.push_back(std::move(node));
    }
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
