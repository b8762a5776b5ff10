#include "tools/terrace/exports/formats.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/text_file.hpp"

namespace terrace::detail {

namespace {

namespace fs = std::filesystem;

constexpr std::array mscclpp_collectives{collective::allreduce, collective::reduce_scatter, collective::allgather};

constexpr std::array formats{
    export_format{.name = "json", .description = "all of the plan as JSON", .write = plan_json, .mark = "\"limit_s\""},
    export_format{"rankfile", "Open MPI's rankfile: ranks in the plan's order, one per core", openmpi_rankfile},
    export_format{"hostfile", "Open MPI's host file, also that of an MPIJob", openmpi_hostfile},
    export_format{"machinefile", "the machine file of MPICH and Intel MPI", mpich_machinefile},
    export_format{"slurm", "a line per rank for SLURM_HOSTFILE and srun --distribution=arbitrary", slurm_hostfile},
    export_format{"torchrun", "a torchrun line for each host", torchrun_lines},
    export_format{.name = "openmpi-rules",
                  .description = "rules for Open MPI: which of its algorithms for which message size",
                  .write = openmpi_rules,
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
    export_format{.name = "simgrid",
                  .description = "a platform file of SimGrid, a host per rank",
                  .write = simgrid_platform,
                  .mark = "<platform "},
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

// Returns the first line that says something: without "#!/bin/sh", and, unless comments count, without them.
std::string first_line(const std::string& text, bool comments) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        line.erase(0, line.find_first_not_of(" \t\r"));
        if (!line.empty() && !line.starts_with("#!") && (comments || !line.starts_with('#'))) return line;
    }
    return "";
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

const export_format* find_format(const fs::path& out) {
    const bool exists = is_file(out);
    const std::string text = exists ? read_text(out, most_bytes) : "";
    const std::string first = first_line(text, true), content = first_line(text, false);
    const bool is_marked = first.starts_with('{') || first.starts_with('<');
    const auto found = std::ranges::find_if(formats, [&](const export_format& f) {
        if (!f.ending.empty()) return !exists && is_file(call_file(f, out, 0));
        if (!f.mark.empty()) return is_marked && text.find(f.mark) != std::string::npos;
        return first.starts_with(fmt::format("# made by terrace export --to {}", f.name));
    });
    if (found != formats.end()) return &*found;
    // Rules that others wrote begin with a number.
    const std::string number = content.substr(0, content.find_first_of(" \t\r#"));
    const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == number.npos;
    return is_number ? &export_format_of("openmpi-rules") : nullptr;
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
