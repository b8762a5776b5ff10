#include "topology/formats/hwloc_devices.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "base/text_parts.hpp"

namespace terrace::detail::hwloc {

namespace {

std::string_view name_of(object o) { return o->name ? o->name : ""; }

constexpr std::array<std::string_view, 4> gpu_drivers{"cuda", "nvml", "rsmi", "ze"};

// The driver and number of "cuda3"; Level Zero names parts of a GPU "ze0.1".
std::optional<std::pair<std::size_t, int>> driver_number(object o) {
    const std::string_view name = name_of(o);
    for (std::size_t d = 0; d < gpu_drivers.size(); ++d) {
        if (!name.starts_with(gpu_drivers[d])) continue;
        if (const auto number = as_number<int>(name.substr(gpu_drivers[d].size()))) return std::pair{d, *number};
    }
    return {};
}

constexpr unsigned nvidia = 0x10de, amd = 0x1002, intel = 0x8086;

// Whether a device computes, by its PCI class. Display adapters of others than these makers are for a console, in
// virtual machines too; Intel's VGA adapter is part of the processor.
enum class computing { no, where_nothing_else_does, yes };

computing computes(object pci) {
    const unsigned kind = pci->attr->pcidev.class_id, maker = pci->attr->pcidev.vendor_id;
    const bool known = maker == nvidia || maker == amd;
    if (kind == 0x0302 || kind == 0x1200 || (kind == 0x0380 && (known || maker == intel))) return computing::yes;
    return kind == 0x0300 && known ? computing::where_nothing_else_does : computing::no;
}

// A server's own display adapter, by a maker of GPUs: its driver gives it a screen (card0) and nothing to compute with
// (renderD128), or it is one of ATI's before programmable ones, as ES1000 and Rage XL.
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

// Where GPUs are on no PCI device, nothing says which of two drivers' are the same one.
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

// An OpenFabrics device says of each port whether it is up (4).
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

}  // namespace

bool is_pci(object o) { return o->type == HWLOC_OBJ_PCI_DEVICE; }

std::uint64_t bus_order(const pci_attributes& a) {
    return std::uint64_t{a.domain} << 16 | std::uint64_t{a.bus} << 8 | std::uint64_t{a.dev} << 3 | a.func;
}

std::string bus_id(const pci_attributes& a) {
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", a.domain, a.bus, a.dev, a.func);
}

double pcie_rate(const pci_attributes& a) { return a.linkspeed > 0 ? 1e9 * static_cast<double>(a.linkspeed) : 0; }

std::uint32_t model_of(const pci_attributes& a) { return std::uint32_t{a.vendor_id} << 16 | a.device_id; }

object device_of(object o) { return o->type == HWLOC_OBJ_OS_DEVICE && o->parent && is_pci(o->parent) ? o->parent : o; }

gpu_table::gpu_table(hwloc_topology_t t) {
    driver_numbers seen;  // by the best driver
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

void gpu_table::add(object o, std::optional<std::pair<std::size_t, int>> driver) {
    gpu_name& g = gpus_[o];
    if (is_pci(o)) g.bus = bus_order(o->attr->pcidev);
    if (driver) {
        g.name = fmt::format("{}{}", gpu_drivers[driver->first], driver->second);
        g.number = driver->second;
    } else if (g.name.empty()) {
        g.name = bus_id(o->attr->pcidev);
    }
}

// The driver's numbers count where one driver saw all; else the order on the bus, in which drivers number.
void gpu_table::number() {
    std::set<int> numbers;
    std::set<std::string> drivers;
    for (const auto& [o, g] : gpus_)
        if (g.number) {
            numbers.insert(*g.number);
            drivers.insert(g.name.substr(0, g.name.find_first_of("0123456789")));
        }
    if (drivers.size() == 1 && numbers.size() == gpus_.size()) return;
    std::vector<std::pair<std::uint64_t, gpu_name*>> order;
    for (auto& [o, g] : gpus_) order.emplace_back(g.bus, &g);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
        return std::pair(a.first, std::string_view(a.second->name)) <
               std::pair(b.first, std::string_view(b.second->name));
    });
    for (std::size_t i = 0; i < order.size(); ++i) order[i].second->number = static_cast<int>(i);
}

std::optional<part> nic_of(object device) {
    std::vector<object> seen;  // what the kernel calls it
    if (is_pci(device))
        for (object c = device->io_first_child; c; c = c->next_sibling) seen.push_back(c);
    else seen.push_back(device);
    const auto fabric = std::find_if(seen.begin(), seen.end(), is_fabric);
    const auto net = std::find_if(seen.begin(), seen.end(), is_net);
    const unsigned kind = is_pci(device) ? device->attr->pcidev.class_id : 0;
    const bool infiniband = kind == 0x0207 || kind == 0x0208 || kind == 0x0c06;
    // Something else on the bus may have a network behind it: a USB controller, say.
    if (fabric == seen.end() && !infiniband && kind != 0x0200 && (is_pci(device) || net == seen.end())) return {};
    part nic;
    nic.what = part::kind::nic;
    nic.infiniband = infiniband;
    nic.rdma = fabric != seen.end() ? is_up(*fabric) : infiniband;
    if (fabric != seen.end()) nic.name = name_of(*fabric);
    else if (net != seen.end()) nic.name = name_of(*net);
    else nic.name = bus_id(device->attr->pcidev);
    if (is_pci(device)) {
        nic.link = pcie_rate(device->attr->pcidev);
        nic.pci = model_of(device->attr->pcidev);
    }
    return nic;
}

}  // namespace terrace::detail::hwloc
