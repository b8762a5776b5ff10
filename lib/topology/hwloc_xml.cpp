#include "topology/hwloc_xml.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <hwloc.h>
#include <hwloc/distances.h>
#include <pugixml.hpp>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/hierarchy_yaml.hpp"

namespace terrace {

namespace {

constexpr std::size_t max_bytes = 64 << 20;
constexpr std::size_t max_parts = 300'000;  // elements and attributes
constexpr int max_depth = 128;

// ---- Is this a file to show to hwloc? -------------------------------------------------------------------------------

// The XML text and where errors in it are.
struct xml_file {
    std::string name;
    std::string text;

    [[noreturn]] void fail(std::ptrdiff_t offset, const std::string& message) const {
        const auto end = text.begin() + std::min(offset, static_cast<std::ptrdiff_t>(text.size()));
        const auto line_start = std::find(std::make_reverse_iterator(end), text.rend(), '\n').base();
        throw input_error(name, static_cast<int>(std::count(text.begin(), end, '\n')) + 1,
                          static_cast<int>(end - line_start) + 1, message);
    }
};

// hwloc's own parser reads neither internal subsets nor public identifiers, and libxml2's result without a system
// identifier makes hwloc 2.9 crash.
void check_doctype(const xml_file& file, const pugi::xml_node& doctype) {
    const std::string_view text = doctype.value();
    if (text != "topology SYSTEM \"hwloc.dtd\"" && text != "topology SYSTEM \"hwloc2.dtd\"")
        file.fail(doctype.offset_debug(),
                  "the document type must be: topology SYSTEM \"hwloc2.dtd\", as lstopo writes it, or left out");
}

void check_version(const xml_file& file, const pugi::xml_node& root) {
    const std::string_view version = root.attribute("version").as_string("1.0");
    if (!version.starts_with("1.") && !version.starts_with("2."))
        file.fail(
            root.offset_debug(),
            fmt::format("hwloc XML version \"{}\" is not read, only 1.x and 2.x; write the file with hwloc 2, or with "
                        "lstopo --export-xml-flags v2 of hwloc 3",
                        version));
}

// What hwloc 2.9 takes for granted in version 2 files, and crashes without.
void check_object(const xml_file& file, const pugi::xml_node& object) {
    for (const char* set : {"cpuset", "nodeset"}) {
        const std::string complete = fmt::format("complete_{}", set);
        if (object.attribute(set) && !object.attribute(complete.c_str()))
            file.fail(object.offset_debug(), fmt::format("the object has a {} but no {}", set, complete));
    }
}

struct object_checker : pugi::xml_tree_walker {
    explicit object_checker(const xml_file& f) : file(f) {}
    bool for_each(pugi::xml_node& node) override {
        if (depth() > max_depth) file.fail(node.offset_debug(), fmt::format("nested deeper than {}", max_depth));
        if (std::strcmp(node.name(), "object") == 0) check_object(file, node);
        return true;
    }
    const xml_file& file;
};

void check(const xml_file& file) {
    const auto is_part = [](char c) { return c == '<' || c == '='; };
    if (std::count_if(file.text.begin(), file.text.end(), is_part) > static_cast<std::ptrdiff_t>(max_parts))
        throw input_error(file.name, 0, 0, fmt::format("more than {} XML elements and attributes", max_parts));
    pugi::xml_document parsed;
    const pugi::xml_parse_result result = parsed.load_buffer(
        file.text.data(), file.text.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
    if (!result) file.fail(result.offset, fmt::format("not well-formed XML: {}", result.description()));
    for (const pugi::xml_node& top : parsed)
        if (top.type() == pugi::node_doctype) check_doctype(file, top);
    const pugi::xml_node root = parsed.document_element();
    if (std::strcmp(root.name(), "topology") != 0)
        file.fail(root.offset_debug(), fmt::format("expected hwloc's <topology>, found <{}>", root.name()));
    check_version(file, root);
    object_checker walker(file);
    parsed.traverse(walker);
}

// ---- hwloc ----------------------------------------------------------------------------------------------------------

struct destroy_topology {
    void operator()(hwloc_topology_t t) const noexcept { hwloc_topology_destroy(t); }
};
using machine = std::unique_ptr<hwloc_topology, destroy_topology>;

machine load(const xml_file& file) {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) throw input_error(file.name, 0, 0, "hwloc could not be started");
    machine m(raw);
    hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
    // The size counts the terminating NUL.
    if (hwloc_topology_set_xmlbuffer(raw, file.text.c_str(), static_cast<int>(file.text.size() + 1)) != 0 ||
        hwloc_topology_load(raw) != 0)
        throw input_error(file.name, 0, 0, "hwloc refuses it: not a topology that lstopo wrote, or a damaged one");
    return m;
}

hwloc_obj_t root_of(const machine& m) { return hwloc_get_root_obj(m.get()); }

// ---- From objects to levels -----------------------------------------------------------------------------------------

// Ranks divided into groups: groups[r] is any number that the ranks of a group have in common.
using grouping = std::vector<int>;

// One way in which ranks may belong together, with what connects the parts of such a group.
struct criterion {
    std::string name;
    fabric medium;
    grouping groups;
    // Bandwidth of the link that a part, given by its ranks, has into its group [B/s]; 0 if the file does not say.
    std::function<double(const std::vector<int>& part)> link;
};

double unknown_link(const std::vector<int>&) { return 0; }

// Groups by equal keys.
template <class Key>
grouping group_by(const std::vector<Key>& keys) {
    std::map<Key, int> numbers;
    grouping groups;
    for (const Key& k : keys) groups.push_back(numbers.emplace(k, static_cast<int>(numbers.size())).first->second);
    return groups;
}

// The finest grouping that keeps together what either does.
grouping join(const grouping& a, grouping b) {
    std::map<int, std::size_t> first_of;  // of each group in a
    for (std::size_t r = 0; r < a.size(); ++r) {
        const int group = b[first_of.emplace(a[r], r).first->second];
        if (b[r] != group) std::replace(b.begin(), b.end(), int{b[r]}, group);
    }
    return b;
}

int count_groups(const grouping& g) { return static_cast<int>(std::set<int>(g.begin(), g.end()).size()); }

std::vector<int> members(const grouping& g, int group) {
    std::vector<int> ranks;
    for (std::size_t r = 0; r < g.size(); ++r)
        if (g[r] == group) ranks.push_back(static_cast<int>(r));
    return ranks;
}

// Slowest known link of the parts of `below` into their groups; 0 if one is not known.
double slowest_link(const criterion& c, const grouping& below) {
    double slowest = std::numeric_limits<double>::infinity();
    for (const int part : std::set<int>(below.begin(), below.end()))
        slowest = std::min(slowest, c.link(members(below, part)));
    return slowest;
}

level level_of(const criterion& c, const grouping& below) {
    const rates fallback = default_rates(c.medium);
    const double bandwidth = slowest_link(c, below);
    level l;
    l.name = c.name;
    l.medium = c.medium;
    l.bandwidth = bandwidth > 0 ? bandwidth : fallback.bandwidth;
    l.latency = fallback.latency;
    l.overhead = fallback.overhead;
    l.bandwidth_assumed = bandwidth <= 0;
    l.latency_assumed = true;
    return normalised(std::move(l));
}

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The tree of ranks that are grouped innermost first, each grouping joining groups of the one before. Ranks that stand
// apart in the file's order may share a group, so they are first put in the order of the groups they are in.
tree tree_from(std::vector<grouping> groupings, int ranks) {
    for (grouping& g : groupings) g = group_by(g);  // numbers follow the first rank of each group
    std::vector<int> order(at(ranks));
    std::iota(order.begin(), order.end(), 0);
    for (const grouping& g : groupings)
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return g[at(a)] < g[at(b)]; });

    std::vector<std::vector<int>> children;
    grouping parts(at(ranks));
    std::iota(parts.begin(), parts.end(), 0);
    for (const grouping& g : groupings) {
        std::vector<int>& sizes = children.emplace_back();
        for (std::size_t i = 0; i < order.size(); ++i) {
            const int r = order[i];
            const bool first = i == 0;
            if (first || g[at(r)] != g[at(order[i - 1])]) sizes.push_back(0);
            if (first || parts[at(r)] != parts[at(order[i - 1])]) ++sizes.back();
        }
        parts = g;
    }
    return tree(std::move(children));
}

// Levels from criteria, innermost first; the last puts all ranks into one group. A criterion that adds nothing to those
// before gives no level, but its name to the level whose groups it has: an NVLink pair that is all of a socket is
// "socket".
hierarchy levels_from(const std::vector<criterion>& criteria, int ranks) {
    grouping current(at(ranks));
    std::iota(current.begin(), current.end(), 0);
    hierarchy h;
    std::vector<grouping> groupings;
    for (const criterion& c : criteria) {
        grouping next = join(current, c.groups);
        const bool joins = count_groups(next) < count_groups(current);
        const bool needed = h.levels.empty() && &c == &criteria.back();
        if (joins || needed) {
            h.levels.push_back(level_of(c, current));
            groupings.push_back(next);
            current = std::move(next);
        } else if (!h.levels.empty()) {
            h.levels.back().name = c.name;
        }
    }
    h.shape = tree_from(std::move(groupings), ranks);
    return h;
}

using objects = std::vector<hwloc_obj_t>;

// ---- Where an object lies -------------------------------------------------------------------------------------------

// Each gives the object that stands for a place that `o` is in, or `o` itself or the machine if there is none.

hwloc_obj_t ancestor(const machine& m, hwloc_obj_t o, hwloc_obj_type_t type, hwloc_obj_t otherwise) {
    if (o->type == type) return o;
    const hwloc_obj_t found = hwloc_get_ancestor_obj_by_type(m.get(), type, o);
    return found ? found : otherwise;
}

hwloc_obj_t socket_of(const machine& m, hwloc_obj_t o) { return ancestor(m, o, HWLOC_OBJ_PACKAGE, root_of(m)); }

hwloc_obj_t cache_of(const machine& m, hwloc_obj_t o) { return ancestor(m, o, HWLOC_OBJ_L3CACHE, o); }

// The innermost part of a socket that has memory of its own.
hwloc_obj_t numa_of(const machine&, hwloc_obj_t o) {
    for (hwloc_obj_t place = o; place->parent && place->type != HWLOC_OBJ_PACKAGE; place = place->parent)
        if (place->memory_arity > 0) return place;
    return o;
}

bool is_host_bridge(hwloc_obj_t o) {
    return o->type == HWLOC_OBJ_BRIDGE && o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

hwloc_obj_t host_bridge_of(const machine&, hwloc_obj_t o) {
    for (hwloc_obj_t place = o; place; place = place->parent)
        if (is_host_bridge(place)) return place;
    return o;
}

criterion place_criterion(const machine& m, const objects& ranks, std::string name, fabric medium,
                          hwloc_obj_t (*place)(const machine&, hwloc_obj_t),
                          std::function<double(const std::vector<int>&)> link = unknown_link) {
    objects places;
    for (const hwloc_obj_t o : ranks) places.push_back(place(m, o));
    return {std::move(name), medium, group_by(places), std::move(link)};
}

criterion whole_node(const machine& m, const objects& ranks) {
    return place_criterion(m, ranks, "node", fabric::bus,
                           [](const machine& whole, hwloc_obj_t) { return root_of(whole); });
}

// ---- GPUs -----------------------------------------------------------------------------------------------------------

// The PCI device an OS device is on, or the device itself.
hwloc_obj_t device_of(hwloc_obj_t o) {
    return o->type == HWLOC_OBJ_OS_DEVICE && o->parent && o->parent->type == HWLOC_OBJ_PCI_DEVICE ? o->parent : o;
}

bool is_gpu_device(hwloc_obj_t os_device) {
    const std::string_view name = os_device->name ? os_device->name : "";
    return name.starts_with("cuda") || name.starts_with("nvml") || name.starts_with("rsmi");
}

// GPUs in the order of the file, each once whatever drivers saw it. Display adapters count only where there is nothing
// else: servers have one for the console.
objects gpus_of(const machine& m) {
    std::set<hwloc_obj_t> seen_by_driver;
    for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_osdev(m.get(), o));)
        if (is_gpu_device(o)) seen_by_driver.insert(device_of(o));
    objects gpus;
    objects displays;
    for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_pcidev(m.get(), o));) {
        const unsigned kind = o->attr->pcidev.class_id;
        if (seen_by_driver.erase(o) > 0 || kind == 0x0302 || kind == 0x1200) gpus.push_back(o);
        else if (kind == 0x0300) displays.push_back(o);
    }
    for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_osdev(m.get(), o));)
        if (seen_by_driver.erase(o) > 0) gpus.push_back(o);  // on no PCI device
    return gpus.empty() ? displays : gpus;
}

struct release_distances {
    hwloc_topology_t topology;
    void operator()(hwloc_distances_s* d) const noexcept { hwloc_distances_release(topology, d); }
};

// NVLink between GPUs. All NVSwitches are one vertex, number ranks: they connect whatever hangs on any of them.
class nvlink_graph {
public:
    nvlink_graph(const machine& m, const objects& gpus) : ranks_(gpus.size()), rate_(gpus.size()), groups_(ranks_ + 1) {
        std::iota(groups_.begin(), groups_.end(), 0);
        hwloc_distances_s* raw = nullptr;
        unsigned found = 1;
        if (hwloc_distances_get_by_name(m.get(), "NVLinkBandwidth", &found, &raw, 0) != 0 || found == 0) return;
        const std::unique_ptr<hwloc_distances_s, release_distances> matrix(raw, {m.get()});
        for (unsigned i = 0; i < matrix->nbobjs; ++i)
            for (unsigned j = 0; j < matrix->nbobjs; ++j)
                if (i != j)
                    add(vertex(gpus, matrix->objs[i]), vertex(gpus, matrix->objs[j]),
                        1e6 * static_cast<double>(matrix->values[i * matrix->nbobjs + j]));
    }

    grouping groups() const { return {groups_.begin(), groups_.end() - 1}; }

    // All NVLinks of a rank to other GPUs and switches [B/s]. A part of more than one rank has no link of its own.
    double link(const std::vector<int>& part) const { return part.size() == 1 ? rate_[at(part.front())] : 0; }

private:
    // The rank that `o` belongs to, ranks_ for a switch, more for a processor, which forwards nothing.
    std::size_t vertex(const objects& gpus, hwloc_obj_t o) const {
        if (!o) return ranks_ + 1;
        const hwloc_obj_t device = device_of(o);
        const auto found = static_cast<std::size_t>(std::find(gpus.begin(), gpus.end(), device) - gpus.begin());
        if (found < ranks_) return found;
        return device->type == HWLOC_OBJ_PCI_DEVICE ? ranks_ : ranks_ + 1;
    }

    void add(std::size_t from, std::size_t to, double rate) {
        if (from > ranks_ || to > ranks_ || rate <= 0) return;
        if (from < ranks_) rate_[from] += rate;
        std::replace(groups_.begin(), groups_.end(), int{groups_[from]}, int{groups_[to]});
    }

    std::size_t ranks_;
    std::vector<double> rate_;
    grouping groups_;
};

bool is_within(hwloc_obj_t o, hwloc_obj_t place) {
    while (o && o != place) o = o->parent;
    return o != nullptr;
}

// PCIe link of the smallest part of the PCI tree that holds all of `part` [B/s]: a GPU's own, or its switch's uplink.
double pcie_link(const objects& gpus, const std::vector<int>& part) {
    hwloc_obj_t place = gpus[at(part.front())];
    for (const int r : part)
        while (!is_within(gpus[at(r)], place)) place = place->parent;
    const bool on_pci =
        place->type == HWLOC_OBJ_PCI_DEVICE || (place->type == HWLOC_OBJ_BRIDGE && !is_host_bridge(place));
    // A bridge's attributes begin with those of its upstream port.
    return on_pci ? 1e9 * static_cast<double>(place->attr->pcidev.linkspeed) : 0;
}

// The innermost bridge that a GPU shares with another, or the GPU.
grouping switches_of(const objects& gpus) {
    objects places;
    for (const hwloc_obj_t gpu : gpus) {
        hwloc_obj_t place = gpu->parent;
        const auto shared = [&](hwloc_obj_t other) { return other != gpu && is_within(other, place); };
        while (place->type == HWLOC_OBJ_BRIDGE && std::none_of(gpus.begin(), gpus.end(), shared)) place = place->parent;
        places.push_back(place->type == HWLOC_OBJ_BRIDGE ? place : gpu);
    }
    return group_by(places);
}

std::vector<criterion> gpu_criteria(const machine& m, const objects& gpus) {
    const nvlink_graph nvlink(m, gpus);
    const auto pcie = [gpus](const std::vector<int>& part) { return pcie_link(gpus, part); };
    return {{"nvlink", fabric::nvlink, nvlink.groups(), [nvlink](const auto& part) { return nvlink.link(part); }},
            {"switch", fabric::pcie, switches_of(gpus), pcie},
            place_criterion(m, gpus, "host-bridge", fabric::pcie, host_bridge_of, pcie),
            place_criterion(m, gpus, "numa", fabric::pcie, numa_of, pcie),
            place_criterion(m, gpus, "socket", fabric::pcie, socket_of, pcie),
            whole_node(m, gpus)};
}

// ---- Processors -----------------------------------------------------------------------------------------------------

objects processors_of(const machine& m, hwloc_obj_type_t type) {
    objects found;
    for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(m.get(), type, o));) found.push_back(o);
    return found;
}

std::vector<criterion> processor_criteria(const machine& m, const objects& ranks) {
    return {place_criterion(m, ranks, "l3", fabric::shm, cache_of),
            place_criterion(m, ranks, "numa", fabric::shm, numa_of),
            place_criterion(m, ranks, "socket", fabric::shm, socket_of), whole_node(m, ranks)};
}

objects rank_objects(const machine& m, rank_unit unit) {
    switch (unit) {
        case rank_unit::gpus: return gpus_of(m);
        case rank_unit::cores: return processors_of(m, HWLOC_OBJ_CORE);
        case rank_unit::numa: return processors_of(m, HWLOC_OBJ_NUMANODE);
        case rank_unit::packages: return processors_of(m, HWLOC_OBJ_PACKAGE);
    }
    return {};
}

}  // namespace

hierarchy import_hwloc(const std::filesystem::path& path, rank_unit unit) {
    const xml_file file{path.string(), read_text(path, max_bytes)};
    check(file);
    const machine m = load(file);
    const objects ranks = rank_objects(m, unit);
    if (ranks.empty())
        throw input_error(
            file.name, 0, 0,
            fmt::format("holds no {} to place ranks on; choose others of {}", to_string(unit), rank_unit_names()));
    return levels_from(unit == rank_unit::gpus ? gpu_criteria(m, ranks) : processor_criteria(m, ranks),
                       static_cast<int>(ranks.size()));
}

}  // namespace terrace
