#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/model.hpp"

namespace terrace::detail {

/// What the command line says of a machine.
struct machine_options {
    std::string source = {};                ///< a file of any format, or a machine in hwloc's one-line notation
    std::string ranks = {};                 ///< what a rank is, where the source describes one node
    std::string network = {};               ///< a file that says how such nodes are connected
    std::string network_name = {};          ///< which of the networks in that file; empty: its default
    std::vector<std::string> labels = {};   ///< of Kubernetes' nodes, outermost first; empty: known ones
    std::string link_unit = {};             ///< of LinkSpeed in such a file: gbit, mbit; empty: assumed
    std::string gpu_fabric = {};            ///< what links a node's GPUs, "nvlink:300GB/s"; empty: what the file says
    std::optional<std::string> hosts = {};  ///< a host file or list: the job's part of the machine
    bool slurm_job = false;                 ///< the part that SLURM_JOB_NODELIST names
};

/// Reads the machine; node files in a child process. @throws input_error, usage_error
topology load_machine(const machine_options& o);

}  // namespace terrace::detail
