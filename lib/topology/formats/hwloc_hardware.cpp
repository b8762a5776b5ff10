#include "topology/formats/hwloc_hardware.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc/distances.h>

#include <terrace/error.hpp>

#include "base/at_end.hpp"
#include "base/text_parts.hpp"

namespace terrace::detail {

namespace {

using object = hwloc_obj_t;
using pci_attributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

bool is_pci(object o) { return o->type == HWLOC_OBJ_PCI_DEVICE; }

// ---- GPUs and NICs --------------------------------------------------------------------------------------------------

struct gpu_name {
    std::string name;
    std::optional<int> number;  // the driver's, else by the order on the bus
    std::uint64_t bus = 0;
};

std::string_view name_of(object o) { return o->name ? o->name : ""; }

constexpr std::array<std::string_view, 4> gpu_drivers{"cuda", "nvml", "rsmi", "ze"};

// Returns the driver and number of a name like "cuda3"; nothing for a part of a GPU, as "ze0.1" of Level Zero.
std::optional<std::pair<std::size_t, int>> driver_number(object o) {
    const std::string_view name = name_of(o);
    for (std::size_t d = 0; d < gpu_drivers.size(); ++d) {
        if (!name.starts_with(gpu_drivers[d])) continue;
        if (const auto number = as_number<int>(name.substr(gpu_drivers[d].size()))) return std::pair{d, *number};
    }
    return {};
}

constexpr unsigned nvidia = 0x10de, amd = 0x1002, intel = 0x8086;

// Answers of computes(), by PCI class. Display adapters of makers other than these are for a console, also in virtual
// machines. Intel's VGA adapter is part of the processor.
enum class computing { no, where_nothing_else_does, yes };

computing computes(object pci) {
    const unsigned kind = pci->attr->pcidev.class_id, maker = pci->attr->pcidev.vendor_id;
    const bool known = maker == nvidia || maker == amd;
    if (kind == 0x0302 || kind == 0x1200 || (kind == 0x0380 && (known || maker == intel))) return computing::yes;
    return kind == 0x0300 && known ? computing::where_nothing_else_does : computing::no;
}

// True for a server's own display adapter by a maker of GPUs. Its driver gives it a screen (card0) but no device that
// computes (renderD128). ATI models before programmable ones, as ES1000 and Rage XL, count too.
bool is_for_console(object display) {
    bool screen = false, renders = false;
    for (object c = display->io_first_child; c; c = c->next_sibling) {
        screen |= name_of(c).starts_with("card");
        renders |= name_of(c).starts_with("render");
    }
    const auto& pci = display->attr->pcidev;
    return (screen && !renders) || (pci.vendor_id == amd && pci.device_id >= 0x3000 && pci.device_id < 0x6000);
}

using driver_numbers = std::map<object, std::pair<std::size_t, int>>;

// Keeps one driver's GPUs among those without a PCI device, since GPUs of two drivers cannot be matched there.
void keep_one_driver_off_the_bus(driver_numbers& seen) {
    std::size_t best = gpu_drivers.size();
    for (const auto& [o, driver] : seen)
        if (!is_pci(o)) best = std::min(best, driver.first);
    std::erase_if(seen, [&](const auto& s) { return !is_pci(s.first) && s.second.first != best; });
}

bool is_net(object o) { return o->type == HWLOC_OBJ_OS_DEVICE && o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK; }
bool is_fabric(object o) {
    return o->type == HWLOC_OBJ_OS_DEVICE && o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
}

// True if a port of an OpenFabrics device is up (state 4), or if no state is given.
bool is_up(object fabric) {
    bool any = false, up = false;
    for (unsigned i = 0; i < fabric->infos_count; ++i) {
        const std::string_view key = fabric->infos[i].name, value = fabric->infos[i].value;
        if (!key.starts_with("Port") || !key.ends_with("State")) continue;
        any = true;
        up |= value.starts_with("4");
    }
    return up || !any;
}

// Returns a number that ascends in the order on the bus.
std::uint64_t bus_order(const pci_attributes& a) {
    return std::uint64_t{a.domain} << 16 | std::uint64_t{a.bus} << 8 | std::uint64_t{a.dev} << 3 | a.func;
}

// "0000:17:00.0"
std::string bus_id(const pci_attributes& a) {
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", a.domain, a.bus, a.dev, a.func);
}

// Returns the rate of a device's link [B/s]; 0 if it is not known.
double pcie_rate(const pci_attributes& a) { return a.linkspeed > 0 ? 1e9 * static_cast<double>(a.linkspeed) : 0; }

// Returns vendor and device, 16 bits each.
std::uint32_t model_of(const pci_attributes& a) { return std::uint32_t{a.vendor_id} << 16 | a.device_id; }

// Returns the PCI device of an OS device, or the device itself if there is none.
object device_of(object o) { return o->type == HWLOC_OBJ_OS_DEVICE && o->parent && is_pci(o->parent) ? o->parent : o; }

// Every GPU once, whichever drivers found it. Display adapters that may compute count only if nothing else computes.
class gpu_table {
public:
    explicit gpu_table(hwloc_topology_t t) {
        driver_numbers seen;  // each device with its best driver
        for (object o = nullptr; (o = hwloc_get_next_osdev(t, o));)
            if (const auto d = driver_number(o)) {
                const auto [entry, first] = seen.emplace(device_of(o), *d);
                if (!first) entry->second = std::min(entry->second, *d);
            }
        keep_one_driver_off_the_bus(seen);
        std::vector<object> displays;
        for (object o = nullptr; (o = hwloc_get_next_pcidev(t, o));) {
            const computing c = computes(o);
            if (c == computing::yes) add(o, {});
            else if (c == computing::where_nothing_else_does) displays.push_back(o);
        }
        for (const auto& [o, driver] : seen) add(o, driver);
        if (gpus_.empty())
            for (const object o : displays) {
                if (is_for_console(o)) consoles_.push_back(bus_id(o->attr->pcidev));
                else add(o, {});
            }
        if (!gpus_.empty()) consoles_.clear();
        number();
    }

    const gpu_name* find(object o) const {
        const auto found = gpus_.find(o);
        return found == gpus_.end() ? nullptr : &found->second;
    }

    // Returns the bus ids of display adapters that are for a console; none if there are GPUs.
    const std::vector<std::string>& consoles() const { return consoles_; }

private:
    void add(object o, std::optional<std::pair<std::size_t, int>> driver) {
        gpu_name& g = gpus_[o];
        if (is_pci(o)) g.bus = bus_order(o->attr->pcidev);
        if (driver) {
            g.name = fmt::format("{}{}", gpu_drivers[driver->first], driver->second);
            g.number = driver->second;
        } else if (g.name.empty()) {
            g.name = bus_id(o->attr->pcidev);
        }
    }

    // Keeps the driver's numbers if one driver found all GPUs; else numbers them in bus order, as drivers do.
    void number() {
        std::set<int> numbers;
        std::set<std::string> drivers;
        for (const auto& [o, g] : gpus_)
            if (g.number) {
                numbers.insert(*g.number);
                drivers.insert(g.name.substr(0, g.name.find_first_of("0123456789")));
            }
        if (drivers.size() == 1 && numbers.size() == gpus_.size()) return;
        std::vector<gpu_name*> order;
        for (auto& [o, g] : gpus_) order.push_back(&g);
        std::ranges::stable_sort(order, {},
                                 [](const gpu_name* g) { return std::pair(g->bus, std::string_view(g->name)); });
        for (std::size_t i = 0; i < order.size(); ++i) order[i]->number = static_cast<int>(i);
    }

    std::map<object, gpu_name> gpus_;
    std::vector<std::string> consoles_;
};

// Returns the NIC of a PCI device, or of an OS device without one; nothing if the device is not a NIC.
std::optional<part> nic_of(object device) {
    std::vector<object> seen;  // the kernel's devices for it
    if (is_pci(device))
        for (object c = device->io_first_child; c; c = c->next_sibling) seen.push_back(c);
    else seen.push_back(device);
    const auto fabric = std::find_if(seen.begin(), seen.end(), is_fabric);
    const auto net = std::find_if(seen.begin(), seen.end(), is_net);
    const unsigned kind = is_pci(device) ? device->attr->pcidev.class_id : 0;
    const bool infiniband = kind == 0x0207 || kind == 0x0208 || kind == 0x0c06;
    // Another PCI device may have a network device behind it, as a USB controller has; it is not a NIC.
    if (fabric == seen.end() && !infiniband && kind != 0x0200 && (is_pci(device) || net == seen.end())) return {};
    part nic{
        .what = part::kind::nic, .infiniband = infiniband, .rdma = fabric != seen.end() ? is_up(*fabric) : infiniband};
    if (fabric != seen.end()) nic.name = name_of(*fabric);
    else if (net != seen.end()) nic.name = name_of(*net);
    else nic.name = bus_id(device->attr->pcidev);
    if (is_pci(device)) {
        nic.link = pcie_rate(device->attr->pcidev);
        nic.pci = model_of(device->attr->pcidev);
    }
    return nic;
}

// ---- The tree of parts ----------------------------------------------------------------------------------------------

class converter {
public:
    explicit converter(hwloc_topology_t t) : gpus_(t) {}

    std::vector<part> convert(object o) {
        switch (o->type) {
            case HWLOC_OBJ_MACHINE: return place(o, part::kind::machine);
            case HWLOC_OBJ_PACKAGE: return place(o, part::kind::package);
            case HWLOC_OBJ_L3CACHE: return place(o, part::kind::cache);
            case HWLOC_OBJ_CORE:
            case HWLOC_OBJ_PU: return {core(o)};  // a PU here is outside all cores, which are not searched
            case HWLOC_OBJ_BRIDGE: return bridge(o);
            case HWLOC_OBJ_PCI_DEVICE:
            case HWLOC_OBJ_OS_DEVICE: return device(o);
            default: return inside(o);  // groups, caches, ...: only their contents count
        }
    }

    std::vector<std::string> notes() const {
        if (gpus_.consoles().empty()) return {};
        return {
            fmt::format("display adapter {} is for a console and counts as no GPU", fmt::join(gpus_.consoles(), ", "))};
    }

    // Returns the numbers of GPUs that wires use: in the order of the tree.
    std::map<object, int> gpu_indexes() const { return gpu_indexes_; }

private:
    static part core(object o) {
        part p{.what = part::kind::core, .name = fmt::format("core {}", o->logical_index)};
        unsigned processor = 0;
        hwloc_bitmap_foreach_begin(processor, o->cpuset) p.processors.push_back(static_cast<int>(processor));
        hwloc_bitmap_foreach_end();
        return p;
    }

    // Returns the parts below `o`; if `o` has memory of its own, inside one NUMA node.
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
        // The first NUMA node of `o` itself, perhaps behind a memory-side cache.
        object memory = o->memory_first_child;
        while (memory && memory->type != HWLOC_OBJ_NUMANODE) memory = memory->memory_first_child;
        if (!memory) return below;
        return list_of({.what = part::kind::numa,
                        .name = fmt::format("numa {}", memory->logical_index),
                        .children = std::move(below)});
    }

    std::vector<part> place(object o, part::kind what) {
        const std::string_view type = what == part::kind::cache ? "l3" : to_string(what);
        return list_of({.what = what,
                        .name = what == part::kind::machine ? "machine" : fmt::format("{} {}", type, o->logical_index),
                        .children = inside(o)});
    }

    std::vector<part> device(object o) {
        if (const gpu_name* known = gpus_.find(o)) {
            gpu_indexes_.emplace(o, static_cast<int>(gpu_indexes_.size()));
            part gpu{.what = part::kind::gpu, .name = known->name, .order = known->number.value_or(0)};
            if (is_pci(o)) {
                gpu.link = pcie_rate(o->attr->pcidev);
                gpu.pci = model_of(o->attr->pcidev);
            }
            return list_of(std::move(gpu));
        }
        if (auto nic = nic_of(o)) return list_of(std::move(*nic));
        return is_pci(o) ? inside(o) : std::vector<part>{};
    }

    // Converts a bridge. If there is one part behind the bridge, both links count as one. A PCIe switch has more
    // bridges behind its own. A bridge with only devices behind it is a slot: they are functions of one adapter, which
    // may have the numbers of several devices (SR-IOV).
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
        if (below.size() == 1) below.front().link = rate_in_series(below.front().link, link);
        if (below.size() < 2) return below;
        part p{.what = host ? part::kind::root : bridges ? part::kind::bus_switch : part::kind::slot, .link = link};
        p.name = host ? fmt::format("host bridge {:04x}:{:02x}", o->attr->bridge.downstream.pci.domain,
                                    o->attr->bridge.downstream.pci.secondary_bus)
                      : fmt::format("{} {}", to_string(p.what), bus_id(o->attr->bridge.upstream.pci));
        p.children = std::move(below);
        return list_of(std::move(p));
    }

    // Drops virtual functions: they have another device id than the physical function beside them, and use its port.
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

void add_wires(hardware& h, hwloc_topology_t t, const std::map<object, int>& gpus, const char* matrix_name) {
    hwloc_distances_s* matrix = nullptr;
    unsigned found = 1;
    if (hwloc_distances_get_by_name(t, matrix_name, &found, &matrix, 0) != 0 || found == 0) return;
    const at_end release([&] { hwloc_distances_release(t, matrix); });
    // By end: the number of a GPU, -1 for a switch, nothing for a processor, which does not forward.
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
