#pragma once

#include <string>

#include "topology/hardware.hpp"

namespace terrace::detail {

/// Returns the hardware of this machine as it was at the first call. @throws error
hardware this_hardware();

/// The part of this machine that the process may run on (taskset, mpirun --bind-to core).
struct usable_machine {
    hardware parts;
    std::string xml;  ///< the same as an hwloc XML file of version 2
};
/// Reads the usable part of this machine. @throws error
usable_machine usable_hardware();

}  // namespace terrace::detail
