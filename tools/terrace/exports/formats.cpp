#include "tools/terrace/exports/formats.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/text_file.hpp"

namespace terrace::detail {

namespace {

namespace fs = std::filesystem;

constexpr std::array mscclpp_collectives{collective::allreduce, collective::reduce_scatter, collective::allgather};

constexpr std::array formats{
    export_format{"json", "all of the plan as JSON", plan_json},
    export_format{"rankfile", "Open MPI's rankfile: ranks in the plan's order, one per core", openmpi_rankfile},
    export_format{"hostfile", "Open MPI's host file, also that of an MPIJob", openmpi_hostfile},
    export_format{"machinefile", "the machine file of MPICH and Intel MPI", mpich_machinefile},
    export_format{"slurm", "a line per rank for SLURM_HOSTFILE and srun --distribution=arbitrary", slurm_hostfile},
    export_format{"torchrun", "a torchrun line for each host", torchrun_lines},
    export_format{.name = "openmpi-rules",
                  .description = "rules for Open MPI: which of its algorithms for which message size",
                  .write = openmpi_rules,
                  .mark = "export --to openmpi-rules",
                  .check = check_openmpi_rules},
    export_format{.name = "mpich",
                  .description = "a JSON file for MPICH: node by node, or over all ranks, by message size",
                  .write = mpich_compositions,
                  .mark = "\"collective=",
                  .check = check_mpich},
    export_format{"intel-mpi", "the same for Intel MPI, as variables to source", intel_variables},
    export_format{.name = "nics",
                  .description = "a script that runs a program with its messages through the NIC of its rank",
                  .write = nic_script,
                  .has_interfaces = true,
                  .executable = true},
    export_format{"simgrid", "a platform file of SimGrid, a host per rank", simgrid_platform},
    export_format{.name = "chakra",
                  .description = "execution traces of Chakra of one call, OUT.RANK.et, for ASTRA-sim and others",
                  .holds = all_collectives,
                  .write_call = chakra_traces,
                  .read_call = read_chakra,
                  .ending = ".et",
                  .elements = "float32 elements",
                  .not_held = "wire types, stages in shared memory (they are messages), the division of avg"},
    export_format{.name = "mscclpp",
                  .description = "an execution plan of MSCCL++ for the sizes of one rule",
                  .holds = mscclpp_collectives,
                  .write_call = mscclpp_plan,
                  .read_call = read_mscclpp,
                  .mark = "\"threadblocks\"",
                  .elements = "chunks",
                  .alignment = mscclpp_alignment,
                  .not_held = "chunks and lanes, wire types, stages in shared memory, the division of avg"},
};

constexpr std::size_t most_bytes = 64 << 20;  // of a file
constexpr std::size_t most_ranks = 65'536;

bool is_file(const fs::path& path) {
    std::error_code none;
    return fs::is_regular_file(path, none);
}

}  // namespace

std::span<const export_format> export_formats() noexcept { return formats; }

const export_format& export_format_of(std::string_view name) {
    const auto found = std::ranges::find(formats, name, &export_format::name);
    if (found != formats.end()) return *found;
    std::vector<std::string_view> names;
    for (const export_format& f : formats) names.push_back(f.name);
    throw usage_error(fmt::format("terrace export: --to {}: the formats are {}", name, fmt::join(names, ", ")));
}

fs::path call_file(const export_format& format, const fs::path& out, std::size_t n) {
    return format.ending.empty() ? out : fs::path(fmt::format("{}.{}{}", out.string(), n, format.ending));
}

const export_format* find_read_format(const fs::path& out) {
    const bool exists = is_file(out);
    const std::string text = exists ? read_text(out, most_bytes) : "";
    const auto found = std::ranges::find_if(formats, [&](const export_format& f) {
        return f.ending.empty() ? !f.mark.empty() && text.find(f.mark) != std::string::npos
                                : !exists && is_file(call_file(f, out, 0));
    });
    return found == formats.end() ? nullptr : &*found;
}

std::vector<named_text> read_files(const export_format& format, const fs::path& out) {
    std::vector<named_text> files;
    do {
        const fs::path file = call_file(format, out, files.size());
        files.push_back({file.string(), read_text(file, most_bytes)});
    } while (!format.ending.empty() && files.size() < most_ranks && is_file(call_file(format, out, files.size())));
    return files;
}

}  // namespace terrace::detail
