#include <algorithm>
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

constexpr std::size_t most_layers = 8;  // AWS has 3 or 4

bool is_kept_of_aws(std::string_view of, std::string_view key) {
    if (of.empty()) return key == "Instances";
    return of == "Instances" &&
           (key == "InstanceId" || key == "NetworkNodes" || key == "AvailabilityZone" || key == "ZoneId");
}

// Returns the zone of an instance, then its network nodes from top to bottom.
std::vector<std::string> place_of(const json_file& file, const json_value& instance) {
    const json_value* zone = instance.find("ZoneId");
    if (!zone) zone = instance.find("AvailabilityZone");
    std::vector<std::string> place{zone ? zone->text : ""};
    const json_value& layers = file.at(instance, "NetworkNodes", json_value::kind::list);
    if (layers.items.size() > most_layers)
        file.fail(layers, fmt::format("more than {} layers of network nodes", most_layers));
    for (const json_value& layer : layers.items) {
        if (layer.what != json_value::kind::text || layer.text.empty())
            file.fail(layer, "the id of a network node expected here");
        place.push_back(layer.text);
    }
    return place;
}

// Aligns places at the innermost layer: instance types have 3 or 4 layers, and the last is next to the instance.
switch_network read_aws(const std::string& path, const read_options&) {
    const json_file file(path, is_kept_of_aws);
    std::vector<placed_node> nodes;
    std::size_t places = 1;
    const json_value& instances = file.at(file.root(), "Instances", json_value::kind::list);
    for (const json_value& i : instances.items) {
        nodes.push_back({i.where, file.at(i, "InstanceId", json_value::kind::text).text, place_of(file, i)});
        places = std::max(places, nodes.back().within.size());
    }
    if (nodes.empty())
        file.fail(instances,
                  "the list of instances is empty; AWS lists running ones of the types it has a topology of");
    for (placed_node& n : nodes) n.within.insert(n.within.begin() + 1, places - n.within.size(), std::string());
    std::vector<std::string> levels{"zone"};
    for (int l = static_cast<int>(places) - 2; l >= 0; --l) levels.push_back(switch_network{}.level_name(l));
    return network_of(path, std::move(nodes), std::move(levels));
}

bool is_aws(const source_start& start) {
    return start.is_file && start.text.starts_with('{') && start.text.find("\"Instances\"") != start.text.npos;
}

}  // namespace

topology_format aws_format() { return {"aws", "AWS's describe-instance-topology (JSON)", is_aws, read_aws}; }

}  // namespace terrace::detail
