#pragma once

#include <filesystem>
#include <string>

#include "topology/hardware.hpp"

namespace terrace::detail {

/// Reads one node from an hwloc XML file (versions 1 and 2, as lstopo writes it). GPUs are what CUDA, NVML, ROCm SMI or
/// Level Zero saw and PCI devices of class 0302, 0380 and 1200, or display adapters (0300) where there are none of
/// these; NICs are OpenFabrics and network devices, and PCI classes 0207, 0208 and 0200.
///
/// hwloc itself may end the process on a broken file that passes the checks made here, so that files of unknown origin
/// are imported in a child process. @throws input_error
hardware import_hwloc(const std::filesystem::path& file);

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
