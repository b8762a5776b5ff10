#pragma once

#include <filesystem>

#include "topology/model.hpp"

namespace terrace {

/// Reads one node from an hwloc XML file (versions 1 and 2, as lstopo writes it). Its ranks, in the file's order, are
/// what `ranks` says; its levels are those of NVLink, PCIe switch, host bridge, L3, NUMA node, socket and the whole
/// node that join at least two ranks or domains. Only a node of one rank has a level of size 1, for a machine has at
/// least one. Rates come from the NVLink bandwidth matrix and from PCIe link speeds; the rest is assumed
/// (default_rates).
///
/// hwloc itself may end the process on a broken file that passes the checks made here, so that files of unknown origin
/// are imported in a child process. @throws input_error
hierarchy import_hwloc(const std::filesystem::path& file, rank_unit ranks);

}  // namespace terrace
