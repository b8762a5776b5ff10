#include "tools/terrace/exports/formats.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

namespace terrace::detail {

namespace {

constexpr std::array formats{
    export_format{"json", "all of the plan as JSON", plan_json},
    export_format{"rankfile", "Open MPI's rankfile: ranks in the plan's order, one per core", openmpi_rankfile},
    export_format{"hostfile", "Open MPI's host file, also that of an MPIJob", openmpi_hostfile},
    export_format{"machinefile", "the machine file of MPICH and Intel MPI", mpich_machinefile},
    export_format{"slurm", "a line per rank for SLURM_HOSTFILE and srun --distribution=arbitrary", slurm_hostfile},
    export_format{"torchrun", "a torchrun line for each host", torchrun_lines},
    export_format{.name = "nics",
                  .description = "a script that runs a program with its messages through the NIC of its rank",
                  .write = nic_script,
                  .has_interfaces = true,
                  .executable = true},
    export_format{"simgrid", "a platform file of SimGrid, a host per rank", simgrid_platform},
};

}  // namespace

std::span<const export_format> export_formats() noexcept { return formats; }

const export_format& export_format_of(std::string_view name) {
    const auto found = std::ranges::find(formats, name, &export_format::name);
    if (found != formats.end()) return *found;
    std::vector<std::string_view> names;
    for (const export_format& f : formats) names.push_back(f.name);
    throw usage_error(fmt::format("terrace export: --to {}: the formats are {}", name, fmt::join(names, ", ")));
}

}  // namespace terrace::detail
