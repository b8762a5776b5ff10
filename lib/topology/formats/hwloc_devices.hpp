#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hwloc.h>

#include "topology/hardware.hpp"

// GPUs and NICs among the objects of an hwloc topology.

namespace terrace::detail::hwloc {

using object = hwloc_obj_t;
using pci_attributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

bool is_pci(object o);
/// Returns a number that ascends in the order on the bus.
std::uint64_t bus_order(const pci_attributes& a);
/// "0000:17:00.0"
std::string bus_id(const pci_attributes& a);
/// Returns the rate of a device's link [B/s]; 0 if it is not known.
double pcie_rate(const pci_attributes& a);
/// Returns vendor and device, 16 bits each.
std::uint32_t model_of(const pci_attributes& a);
/// Returns the PCI device that an OS device is on, or the device itself.
object device_of(object o);

struct gpu_name {
    std::string name;
    std::optional<int> number;  ///< the driver's
    std::uint64_t bus = 0;
};

/// Every GPU once, whatever drivers saw it; display adapters that may compute only where there is nothing else.
class gpu_table {
public:
    explicit gpu_table(hwloc_topology_t t);

    const gpu_name* find(object o) const {
        const auto found = gpus_.find(o);
        return found == gpus_.end() ? nullptr : &found->second;
    }

    /// Bus ids of display adapters that would be GPUs if they were not for a console.
    const std::vector<std::string>& consoles() const { return consoles_; }

private:
    void add(object o, std::optional<std::pair<std::size_t, int>> driver);
    void number();

    std::map<object, gpu_name> gpus_;
    std::vector<std::string> consoles_;
};

/// Returns the NIC that a PCI device, or an OS device on none, is.
std::optional<part> nic_of(object device);

}  // namespace terrace::detail::hwloc
