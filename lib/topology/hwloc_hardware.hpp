#pragma once

#include <hwloc.h>

#include "topology/hardware.hpp"

namespace terrace {

/// What Terrace needs of a loaded hwloc topology.
hardware hardware_of(hwloc_topology_t topology);

}  // namespace terrace
