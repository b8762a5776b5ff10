#pragma once

#include <filesystem>

#include "topology/hardware.hpp"

namespace terrace::detail {

/// Reads one node from an NCCL topology file (NCCL_TOPO_FILE, or what NCCL_TOPO_DUMP_FILE wrote): `<system
/// version="1">` with `<cpu>` (a NUMA node), `<pci>`, `<gpu>`, `<nvlink>`, `<nic>` and `<net>`. What NCCL itself would
/// find out at run time is taken as unknown. @throws input_error with line and column
hardware import_nccl(const std::filesystem::path& file);

}  // namespace terrace::detail
