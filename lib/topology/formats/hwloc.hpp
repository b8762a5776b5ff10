#pragma once

#include <string>

#include "topology/hardware.hpp"

namespace terrace::detail {

/// The machine this process runs on, as it was when this was called first. @throws error
hardware this_hardware();

/// What this process may run on (taskset, mpirun --bind-to core) of its machine, and the same as an hwloc XML file of
/// version 2. @throws error
struct usable_machine {
    hardware parts;
    std::string xml;
};
usable_machine usable_hardware();

}  // namespace terrace::detail
