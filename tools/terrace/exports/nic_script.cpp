#include <algorithm>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

namespace {

// srun or mpirun may have started torchrun, so its variables come first.
constexpr std::string_view
    by_local_rank = "rank=${LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-$MPI_LOCALRANKID}}}\n",
    by_rank = "rank=${RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-$PMI_RANK}}}\n";

// Returns a shell script that runs a program with messages through the NIC of its rank: over Open MPI's TCP and UCX.
// @param arms NICs by rank   @param alike ranks are counted in their node
std::string script(const std::vector<std::string>& arms, bool alike) {
    std::string out =
        "#!/bin/sh\n"
        "# made by terrace export --to nics\n"
        "# Runs a program with its messages through the NIC that the plan gives its rank: over Open MPI's TCP, and "
        "UCX.\n"
        "#   mpirun ... THIS_SCRIPT PROGRAM ...\n";
    if (!alike)
        out +=
            "# Nodes differ in their NICs, so ranks must start in the plan's order (terrace export --to rankfile).\n";
    out += alike ? by_local_rank : by_rank;
    out += "case \"$rank\" in\n";
    for (std::size_t i = 0; i < arms.size(); ++i) out += fmt::format("    {}) nic={} ;;\n", i, arms[i]);
    out +=
        "    *) echo \"$0: rank '$rank' is none of the plan's; is this started by mpirun, srun or torchrun?\" >&2; "
        "exit 1 ;;\n"
        "esac\n";
    // UCX uses names of InfiniBand devices with a port, as mlx5_0:1; these are no interfaces for Open MPI's TCP.
    if (std::ranges::none_of(arms, [](const std::string& name) { return name.find(':') != name.npos; }))
        out += "export OMPI_MCA_btl_tcp_if_include=\"$nic\"\n";
    return out + "export UCX_NET_DEVICES=\"$nic\"\nexec \"$@\"\n";
}

}  // namespace

std::vector<int> nics_by_local_rank(const hierarchy& machine) {
    std::vector<int> found;
    int rank = 0;
    for (const int size : machine.node_sizes())
        for (int local = 0; local < size; ++local, ++rank) {
            const int nic = machine.nics.rail_of(machine.nics.of(rank));
            if (local == static_cast<int>(found.size())) found.push_back(nic);
            if (found[at(local)] != nic) return {};
        }
    return found;
}

std::string nic_script(const plan_data& plan, const export_options& options) {
    const nic_set& nics = plan.machine.nics;
    if (nics.empty())
        throw usage_error("--to nics: the plan has no NICs; write `nics:` into the cluster file, and plan again");
    std::vector<std::string> interfaces = options.interfaces;
    for (int i = 0; options.interfaces.empty() && i < nics.rail_count(); ++i)
        interfaces.push_back(fmt::format("eth{}", i));
    if (static_cast<int>(interfaces.size()) < nics.rail_count())
        throw usage_error(
            fmt::format("--interfaces: names {}, but a node has {} NICs", interfaces.size(), nics.rail_count()));
    // Names are copied into the script unquoted.
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    for (const std::string& name : interfaces)
        if (name.empty() || name.find_first_not_of(plain) != name.npos)
            throw usage_error(fmt::format("--interfaces: \"{}\" is no name of an interface", name));

    std::vector<int> of_rank = nics_by_local_rank(plan.machine);
    const bool alike = !of_rank.empty();
    for (int rank = 0; !alike && rank < plan.machine.ranks(); ++rank) of_rank.push_back(nics.rail_of(nics.of(rank)));
    std::vector<std::string> arms;
    for (const int nic : of_rank) arms.push_back(interfaces[at(nic)]);
    return script(arms, alike);
}

plan_facts read_nic_script(const named_text& file) {
    const std::regex arm(R"(\d+\) nic=([\w.:-]+) ;;)");
    const std::vector<file_line> lines = lines_of(file);
    std::vector<std::string> arms;
    for (const file_line& line : lines)
        if (line.text.ends_with(" ;;") && line.text.find("nic=") != line.text.npos)
            arms.push_back(line.parts(arm, "0) nic=eth0 ;;")[1]);
    const bool alike = file.text.find(by_local_rank) != file.text.npos;
    const named_text due{"", script(arms, alike)};
    const std::vector<file_line> all_due = lines_of(due);
    for (std::size_t n = 0; n < lines.size(); ++n)
        if (n >= all_due.size() || lines[n].text != all_due[n].text)
            lines[n].fail(n < all_due.size() ? fmt::format("{:?} expected", all_due[n].text)
                                             : "more than a script has");
    if (arms.empty() || lines.size() < all_due.size())
        throw input_error(file.name, 0, 0, fmt::format("a script of {} ranks, and not all of it", arms.size()));
    std::vector<std::string> names;  // of NICs, in order of appearance
    plan_facts made{fmt::format("NICs of {} ranks of {}", arms.size(), alike ? "a node" : "the job"), {}, {}};
    for (const std::string& name : arms) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
        made.lines.push_back(
            fmt::format("rank {}: NIC {}", made.lines.size(), std::ranges::find(names, name) - names.begin()));
    }
    made.lines.push_back(made.says);
    return made;
}

}  // namespace terrace::detail
