#pragma once

#include <memory>

#include <hwloc.h>

#include "topology/hardware.hpp"

namespace terrace::detail {

struct hwloc_destroyer {
    void operator()(hwloc_topology_t t) const noexcept { hwloc_topology_destroy(t); }
};
using hwloc_machine = std::unique_ptr<hwloc_topology, hwloc_destroyer>;

/// Returns an hwloc topology that is not loaded yet and will keep objects of all types. @throws error
hwloc_machine empty_hwloc_machine();

/// Returns the parts of a loaded hwloc topology that Terrace uses.
hardware hardware_of(hwloc_topology_t topology);

}  // namespace terrace::detail
