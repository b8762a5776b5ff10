#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/model.hpp"

namespace terrace::detail {

/// Options of the command line about a machine.
struct machine_options {
    std::string source = {};                ///< a file of any format, or a machine in hwloc's one-line notation
    std::string ranks = {};                 ///< unit of a rank, if the source describes one node
    std::string network = {};               ///< a file with the network between such nodes
    std::string network_name = {};          ///< name of one of the networks in that file; empty: its default
    std::vector<std::string> labels = {};   ///< labels of Kubernetes' nodes, outermost first; empty: known ones
    std::string link_unit = {};             ///< unit of LinkSpeed in such a file: gbit, mbit; empty: assumed
    std::string gpu_fabric = {};            ///< links between a node's GPUs, "nvlink:300GB/s"; empty: as in the file
    std::optional<std::string> hosts = {};  ///< a host file or list: the job's part of the machine
    bool slurm_job = false;                 ///< use only the hosts in SLURM_JOB_NODELIST
};

/// Reads the machine; files of nodes are read in a child process. @throws input_error, usage_error
topology load_machine(const machine_options& o);

}  // namespace terrace::detail
