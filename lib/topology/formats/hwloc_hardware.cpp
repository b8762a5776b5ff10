#include "topology/formats/hwloc_hardware.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc/distances.h>

#include <terrace/error.hpp>

#include "topology/formats/hwloc_devices.hpp"

namespace terrace::detail {

namespace {

using namespace hwloc;

double slower(double a, double b) { return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b); }

class converter {
public:
    explicit converter(hwloc_topology_t t) : gpus_(t) {}

    std::vector<part> convert(object o) {
        switch (o->type) {
            case HWLOC_OBJ_MACHINE: return place(o, part::kind::machine);
            case HWLOC_OBJ_PACKAGE: return place(o, part::kind::package);
            case HWLOC_OBJ_L3CACHE: return place(o, part::kind::cache);
            case HWLOC_OBJ_CORE:
            case HWLOC_OBJ_PU: return {core(o)};  // a PU in no core: what is in cores is not looked into
            case HWLOC_OBJ_BRIDGE: return bridge(o);
            case HWLOC_OBJ_PCI_DEVICE:
            case HWLOC_OBJ_OS_DEVICE: return device(o);
            default: return inside(o);  // groups, caches, ...: only what is in them counts
        }
    }

    std::vector<std::string> notes() const {
        if (gpus_.consoles().empty()) return {};
        return {
            fmt::format("display adapter {} is for a console and counts as no GPU", fmt::join(gpus_.consoles(), ", "))};
    }

    // GPUs as wires number them: in the order of the tree.
    std::map<object, int> gpu_indexes() const { return gpu_indexes_; }

private:
    static part core(object o) {
        part p;
        p.what = part::kind::core;
        p.name = fmt::format("core {}", o->logical_index);
        unsigned processor = 0;
        hwloc_bitmap_foreach_begin(processor, o->cpuset) p.processors.push_back(static_cast<int>(processor));
        hwloc_bitmap_foreach_end();
        return p;
    }

    // Returns what is below `o`; where `o` has memory of its own, as one NUMA node.
    std::vector<part> inside(object o) {
        std::vector<part> below;
        const auto append = [&](object first) {
            for (object c = first; c; c = c->next_sibling) {
                std::vector<part> more = convert(c);
                std::move(more.begin(), more.end(), std::back_inserter(below));
            }
        };
        append(o->first_child);
        append(o->io_first_child);
        const object memory = numa_node(o);
        if (!memory) return below;
        part numa;
        numa.what = part::kind::numa;
        numa.name = fmt::format("numa {}", memory->logical_index);
        numa.children = std::move(below);
        return one(std::move(numa));
    }

    // The first NUMA node right at `o`, behind a memory-side cache perhaps.
    static object numa_node(object o) {
        object memory = o->memory_first_child;
        while (memory && memory->type != HWLOC_OBJ_NUMANODE) memory = memory->memory_first_child;
        return memory;
    }

    static std::vector<part> one(part p) {
        std::vector<part> result;
        result.push_back(std::move(p));
        return result;
    }

    std::vector<part> place(object o, part::kind what) {
        part p;
        p.what = what;
        p.name = what == part::kind::machine
                     ? "machine"
                     : fmt::format("{} {}", what == part::kind::cache ? "l3" : to_string(what), o->logical_index);
        p.children = inside(o);
        return one(std::move(p));
    }

    std::vector<part> device(object o) {
        if (const gpu_name* known = gpus_.find(o)) {
            gpu_indexes_.emplace(o, static_cast<int>(gpu_indexes_.size()));
            part gpu;
            gpu.what = part::kind::gpu;
            gpu.name = known->name;
            gpu.order = known->number.value_or(0);
            if (is_pci(o)) {
                gpu.link = pcie_rate(o->attr->pcidev);
                gpu.pci = model_of(o->attr->pcidev);
            }
            return one(std::move(gpu));
        }
        if (auto nic = nic_of(o)) return one(std::move(*nic));
        return is_pci(o) ? inside(o) : std::vector<part>{};
    }

    // A bridge with one thing behind it is a piece of that thing's link. A switch has more bridges behind its own; a
    // bridge with devices alone is a slot, and they are functions of one adapter, which may have numbers as of several
    // devices (SR-IOV).
    std::vector<part> bridge(object o) {
        const bool host = o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
        const double link = host ? 0 : pcie_rate(o->attr->bridge.upstream.pci);
        std::vector<part> below;
        bool bridges = false;
        for (object c = o->io_first_child; c; c = c->next_sibling) {
            std::vector<part> more = convert(c);
            bridges |= !more.empty() && c->type == HWLOC_OBJ_BRIDGE;
            std::move(more.begin(), more.end(), std::back_inserter(below));
        }
        if (!host && !bridges) drop_virtual_nics(below);
        if (below.size() == 1) below.front().link = slower(below.front().link, link);
        if (below.size() < 2) return below;
        part p;
        p.what = host ? part::kind::root : bridges ? part::kind::bus_switch : part::kind::slot;
        p.name = host ? fmt::format("host bridge {:04x}:{:02x}", o->attr->bridge.downstream.pci.domain,
                                    o->attr->bridge.downstream.pci.secondary_bus)
                      : fmt::format("{} {}", to_string(p.what), bus_id(o->attr->bridge.upstream.pci));
        p.link = link;
        p.children = std::move(below);
        return one(std::move(p));
    }

    // Virtual functions have a device number of their own, and the port of the physical function beside them.
    static void drop_virtual_nics(std::vector<part>& slot) {
        const auto nic = [](const part& p) { return p.what == part::kind::nic; };
        const auto physical =
            std::ranges::max_element(slot, {}, [&](const part& p) { return nic(p) + (nic(p) && p.rdma); });
        if (physical == slot.end()) return;
        std::erase_if(slot, [&, pci = physical->pci](const part& p) { return nic(p) && p.pci != pci; });
    }

    gpu_table gpus_;
    std::map<object, int> gpu_indexes_;
};

// ---- Wires between GPUs ---------------------------------------------------------------------------------------------

struct release_distances {
    hwloc_topology_t topology;
    void operator()(hwloc_distances_s* d) const noexcept { hwloc_distances_release(topology, d); }
};

void add_wires(hardware& h, hwloc_topology_t t, const std::map<object, int>& gpus, const char* matrix_name) {
    hwloc_distances_s* raw = nullptr;
    unsigned found = 1;
    if (hwloc_distances_get_by_name(t, matrix_name, &found, &raw, 0) != 0 || found == 0) return;
    const std::unique_ptr<hwloc_distances_s, release_distances> matrix(raw, {t});
    // A GPU's number, -1 for a switch, nothing for a processor, which forwards nothing.
    std::vector<std::optional<int>> ends;
    for (unsigned i = 0; i < matrix->nbobjs; ++i) {
        const object device = matrix->objs[i] ? device_of(matrix->objs[i]) : nullptr;
        const auto gpu = gpus.find(device);
        std::optional<int>& end = ends.emplace_back();
        if (gpu != gpus.end()) end = gpu->second;
        else if (device && is_pci(device)) end = -1;
    }
    for (std::size_t i = 0; i < ends.size(); ++i)
        for (std::size_t j = 0; j < ends.size(); ++j) {
            const double rate = 1e6 * static_cast<double>(matrix->values[i * ends.size() + j]);
            if (i != j && ends[i] && ends[j] && *ends[i] >= 0 && *ends[i] != *ends[j] && rate > 0)
                h.wires.push_back({*ends[i], *ends[j], rate});
        }
}

}  // namespace

hwloc_machine empty_hwloc_machine() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) throw error("hwloc could not be started");
    hwloc_machine m(raw);
    hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
    return m;
}

hardware hardware_of(hwloc_topology_t topology) {
    converter c(topology);
    hardware h;
    h.machine = std::move(c.convert(hwloc_get_root_obj(topology)).front());
    h.notes = c.notes();
    constexpr std::array<std::pair<const char*, const char*>, 3> matrices{
        {{"NVLinkBandwidth", "nvlink"}, {"XGMIBandwidth", "xgmi"}, {"XeLinkBandwidth", "xelink"}}};
    for (const auto& [matrix, name] : matrices) {
        if (!h.wires.empty()) break;
        h.wire_name = name;
        add_wires(h, topology, c.gpu_indexes(), matrix);
    }
    if (h.wires.empty()) h.wire_name = matrices.front().second;
    return h;
}

}  // namespace terrace::detail
