#include "tools/terrace/exports/formats.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/text_file.hpp"
#include "base/text_parts.hpp"

namespace terrace::detail {

namespace {

namespace fs = std::filesystem;

constexpr std::array mscclpp_collectives{collective::allreduce, collective::reduce_scatter, collective::allgather};

constexpr std::string_view not_in_orders = "rules: it is an order of ranks";
constexpr std::string_view not_in_rules = "stages: the library has its own algorithms";

constexpr std::array formats{
    export_format{"json", "all of the plan as JSON", plan_json, read_plan_json, "", "\"limit_s\""},
    export_format{"rankfile", "Open MPI's rankfile: ranks in the plan's order, one per core", openmpi_rankfile,
                  read_rankfile, not_in_orders},
    export_format{"hostfile", "Open MPI's host file, also that of an MPIJob", openmpi_hostfile, read_hostfile,
                  not_in_orders},
    export_format{"machinefile", "the machine file of MPICH and Intel MPI", mpich_machinefile, read_machinefile,
                  not_in_orders},
    export_format{"slurm", "a line per rank for SLURM_HOSTFILE and srun --distribution=arbitrary", slurm_hostfile,
                  read_slurm_hostfile, not_in_orders},
    export_format{"torchrun", "a torchrun line for each host", torchrun_lines, read_torchrun_lines, not_in_orders},
    export_format{"openmpi-rules", "rules for Open MPI: which of its algorithms for which message size", openmpi_rules,
                  read_openmpi_rules, not_in_rules},
    export_format{"openmpi-han", "the same for Open MPI 5's component han: node by node, or over all ranks",
                  openmpi_han, read_openmpi_han, not_in_rules},
    export_format{"mpich", "a JSON file for MPICH: node by node, or over all ranks, by message size",
                  mpich_compositions, read_mpich_compositions, not_in_rules, "\"collective="},
    export_format{"intel-mpi", "the same for Intel MPI, as variables to source", intel_variables, read_intel_variables,
                  not_in_rules},
    export_format{.name = "nics",
                  .description = "a script that runs a program with its messages through the NIC of its rank",
                  .write = nic_script,
                  .read = read_nic_script,
                  .not_held = "rules; which NIC an interface is",
                  .has_interfaces = true,
                  .executable = true},
    export_format{"simgrid", "a platform file of SimGrid, a host per rank", simgrid_platform, read_simgrid,
                  "rules, overheads, the spine between rails", "<platform "},
    export_format{.name = "chakra",
                  .description = "execution traces of Chakra of one call, OUT.RANK.et, for ASTRA-sim and others",
                  .not_held = "wire types, stages in shared memory (they are messages), the division of avg",
                  .holds = all_collectives,
                  .write_call = chakra_traces,
                  .read_call = read_chakra,
                  .ending = ".et",
                  .elements = "float32 elements"},
    export_format{.name = "mscclpp",
                  .description = "an execution plan of MSCCL++ for the sizes of one rule",
                  .not_held = "chunks and lanes, wire types, stages in shared memory, the division of avg",
                  .mark = "\"threadblocks\"",
                  .holds = mscclpp_collectives,
                  .write_call = mscclpp_plan,
                  .read_call = read_mscclpp,
                  .elements = "chunks",
                  .alignment = mscclpp_alignment},
};

constexpr std::size_t most_bytes = 64 << 20;  // limit for a file
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

const export_format* find_format(const fs::path& out) {
    const bool exists = is_file(out);
    const named_text file{out.string(), exists ? read_text(out, most_bytes) : ""};
    const std::string& text = file.text;
    std::string_view first = text;  // text after blanks and "#!/bin/sh"
    if (first.starts_with("#!")) first.remove_prefix(std::min(first.size(), first.find('\n')));
    first = without_leading_blanks(first);
    const bool is_marked = first.starts_with('{') || first.starts_with('<');
    const auto found = std::ranges::find_if(formats, [&](const export_format& f) {
        if (!f.ending.empty()) return !exists && is_file(call_file(f, out, 0));
        if (!f.mark.empty()) return is_marked && text.find(f.mark) != std::string::npos;
        return first.starts_with(fmt::format("# made by terrace export --to {}", f.name));
    });
    if (found != formats.end()) return &*found;
    // Rules written by other programs begin with a number.
    const std::vector<file_line> lines = is_marked ? std::vector<file_line>{} : lines_of(file);
    const std::string_view number = lines.empty() ? "" : lines[0].text.substr(0, lines[0].text.find_first_of(" \t#"));
    return as_number<std::int64_t>(number) ? &export_format_of("openmpi-rules") : nullptr;
}

std::vector<named_text> read_files(const export_format& format, const fs::path& out) {
    std::vector<named_text> files;
    do {
        const fs::path file = call_file(format, out, files.size());
        files.push_back({file.string(), read_text(file, most_bytes)});
    } while (!format.ending.empty() && files.size() < most_ranks && is_file(call_file(format, out, files.size())));
    return files;
}

std::optional<std::string> find_difference(const plan_facts& file, const plan_facts& due) {
    const auto [here, there] = std::ranges::mismatch(file.lines, due.lines);
    if (here == file.lines.end() && there == due.lines.end()) return {};
    return fmt::format("has {}, where the plan has {}",
                       here == file.lines.end() ? "nothing more" : fmt::format("{:?}", *here),
                       there == due.lines.end() ? "nothing more" : fmt::format("{:?}", *there));
}

std::vector<std::string> file_line::parts(const std::regex& form, std::string_view example) const {
    constexpr std::size_t longest = 1000;
    std::match_results<std::string_view::const_iterator> found;
    if (text.size() > longest || !std::regex_match(text.begin(), text.end(), found, form))
        fail(fmt::format("no line as {:?}", example));
    return {found.begin(), found.end()};
}

std::int64_t file_line::integer(std::string_view digits, std::int64_t least, std::int64_t most) const {
    const auto found = as_number<std::int64_t>(digits);
    if (!found || *found < least || *found > most)
        fail(fmt::format("{} is no number from {} to {}", digits, least, most));
    return *found;
}

std::vector<file_line> lines_of(const named_text& file) {
    std::vector<file_line> all;
    for_each_line(file.text, [&](std::string_view line, int number) {
        line = trimmed(line);
        if (!line.empty() && line[0] != '#') all.push_back({line, number, &file});
    });
    return all;
}

}  // namespace terrace::detail
