#include "tools/machine.hpp"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "tools/import_child.hpp"
#include "topology/cluster_yaml.hpp"
#include "topology/formats.hpp"
#include "topology/restrict.hpp"
#include "topology/slurm_conf.hpp"

namespace terrace {

namespace {

std::vector<job_host> wanted_hosts(const machine_options& o) {
    if (o.slurm_job) {
        const char* list = std::getenv("SLURM_JOB_NODELIST");
        if (!list)
            throw usage_error("--slurm-job: SLURM_JOB_NODELIST is not set; run inside a Slurm job, or use --hosts");
        return parse_hostlist(list);
    }
    constexpr std::size_t max_bytes = 8 << 20;
    if (!o.hosts) return {};
    std::error_code ignored;
    if (std::filesystem::exists(*o.hosts, ignored)) return parse_hostfile(read_text(*o.hosts, max_bytes), *o.hosts);
    try {
        return parse_hostlist(*o.hosts);
    } catch (const usage_error& e) {
        throw usage_error(fmt::format("--hosts: there is no such file, and {}", e.what()));
    }
}

bool is_synthetic(const machine_options& o) {
    std::error_code ignored;
    return !std::filesystem::exists(o.source, ignored) && looks_synthetic(o.source);
}

topology read_one_node(const machine_options& o, node_format format) {
    const std::string name =
        format == node_format::synthetic ? "synthetic" : std::filesystem::path(o.source).stem().string();
    return single_node(name, place_ranks(read_node_in_child(format, o.source), parse_rank_unit(o.ranks), o.source));
}

topology read_source(const machine_options& o, const std::vector<std::string>& hosts) {
    if (is_synthetic(o)) return read_one_node(o, node_format::synthetic);
    const file_format format = format_of(o.source);
    if (format == file_format::hwloc) return read_one_node(o, node_format::hwloc);
    if (format == file_format::nccl) return read_one_node(o, node_format::nccl);
    if (!o.ranks.empty())
        throw usage_error(
            fmt::format("{}: --ranks is for the description of one node; a cluster file says `ranks:` "
                        "itself",
                        o.source));
    if (format == file_format::slurm)
        return {std::filesystem::path(o.source).stem().string(), read_slurm_topology(o.source, {}, hosts), nullptr, {}};
    return read_cluster(o.source, read_node_in_child);
}

topology load(const machine_options& o, const std::vector<job_host>& hosts) {
    std::vector<std::string> names;
    for (const job_host& h : hosts) names.push_back(h.name);

    topology t = read_source(o, names);
    if (!o.slurm.empty()) {
        const std::optional<uplink> nodes = t.node ? uplink_of(*t.node) : std::nullopt;
        t = with_nodes(read_slurm_topology(o.slurm, nodes, names), std::move(t));
    }
    return hosts.empty() ? t : restricted(std::move(t), hosts);
}

}  // namespace

topology load_machine(const machine_options& o) {
    const std::vector<job_host> hosts = wanted_hosts(o);
    try {
        return load(o, hosts);
    } catch (const usage_error& e) {
        // One word may have been meant for a file.
        if (hosts.size() != 1 || hosts.front().name != o.hosts) throw;
        throw usage_error(fmt::format("{}; nor is there a file \"{}\" for --hosts", e.what(), *o.hosts));
    }
}

}  // namespace terrace
