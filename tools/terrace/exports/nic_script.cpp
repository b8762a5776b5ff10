#include <algorithm>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

namespace {

// UCX names devices of InfiniBand with a port, as mlx5_0:1; Open MPI's TCP knows no such interface.
bool is_device(const std::string& name) { return name.find(':') != name.npos; }

// Names go into the script as they are.
void expect_plain(const std::string& name) {
    const auto plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) ||
               std::string_view("._:-").find(c) != std::string_view::npos;
    };
    if (name.empty() || !std::all_of(name.begin(), name.end(), plain))
        throw usage_error(fmt::format("--interfaces: \"{}\" is no name of an interface", name));
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

// A shell script that runs a program with its messages through the NIC that the plan gives the rank: over Open MPI's
// TCP and UCX.
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
    for (const std::string& name : interfaces) expect_plain(name);

    std::vector<int> of_rank = nics_by_local_rank(plan.machine);
    const bool alike = !of_rank.empty();
    for (int rank = 0; !alike && rank < plan.machine.ranks(); ++rank) of_rank.push_back(nics.rail_of(nics.of(rank)));
    std::string out =
        "#!/bin/sh\n"
        "# made by terrace export --to nics\n"
        "# Runs a program with its messages through the NIC that the plan gives its rank: over Open MPI's TCP, and "
        "UCX.\n"
        "#   mpirun ... THIS_SCRIPT PROGRAM ...\n";
    if (!alike)
        out +=
            "# Nodes differ in their NICs, so ranks must start in the plan's order (terrace export --to rankfile).\n";
    // torchrun may itself be started by srun or mpirun.
    out += alike ? "rank=${LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-$MPI_LOCALRANKID}}}\n"
                 : "rank=${RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-$PMI_RANK}}}\n";
    out += "case \"$rank\" in\n";
    for (std::size_t i = 0; i < of_rank.size(); ++i)
        out += fmt::format("    {}) nic={} ;;\n", i, interfaces[at(of_rank[i])]);
    out +=
        "    *) echo \"$0: rank '$rank' is none of the plan's; is this started by mpirun, srun or torchrun?\" >&2; "
        "exit 1 ;;\n"
        "esac\n";
    const bool devices = std::any_of(interfaces.begin(), interfaces.end(), is_device);
    if (!devices) out += "export OMPI_MCA_btl_tcp_if_include=\"$nic\"\n";
    return out + "export UCX_NET_DEVICES=\"$nic\"\nexec \"$@\"\n";
}

}  // namespace terrace::detail
