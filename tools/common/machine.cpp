#include "tools/common/machine.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/at_end.hpp"
#include "base/document.hpp"
#include "tools/common/import_child.hpp"
#include "topology/formats.hpp"
#include "topology/network.hpp"
#include "topology/nodes.hpp"
#include "topology/restrict.hpp"

namespace terrace::detail {

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

read_options options_of(const machine_options& o, const std::vector<std::string>& hosts) {
    const std::optional<gpu_fabric> gpus = parse_gpu_fabric(o.gpu_fabric);
    if (!gpus && !o.gpu_fabric.empty())
        throw usage_error(
            fmt::format("--gpu-fabric: \"{}\" is none of nvlink:RATE, xgmi:RATE, xelink:RATE (a rate as in "
                        "300GB/s) and none",
                        o.gpu_fabric));
    return {.read_node = read_node_in_child,
            .hosts = hosts,
            .unit = parse_link_unit(o.link_unit),
            .gpus = gpus,
            .labels = o.labels,
            .network_name = o.network_name};
}

topology load(const machine_options& o, const std::vector<job_host>& hosts) {
    std::vector<std::string> names;
    for (const job_host& h : hosts) names.push_back(h.name);

    const topology_format& format = format_of(o.source);
    if (!o.ranks.empty() && !format.describes_node())
        throw usage_error(fmt::format(
            "{}: --ranks is for the description of one node; a cluster file says `ranks:` itself", o.source));
    topology t = read_machine(format, o.source, parse_rank_unit(o.ranks), options_of(o, names));
    if (!o.network.empty()) {
        const std::optional<uplink> nodes = t.node ? uplink_of(*t.node) : std::nullopt;
        const network_levels above =
            levels_of(read_network(format_of(o.network), o.network, options_of(o, names)), nodes, names);
        t = with_nodes(above.machine, std::move(t));
        t.notes.insert(t.notes.end(), above.notes.begin(), above.notes.end());
    }
    return hosts.empty() ? t : restricted(std::move(t), hosts);
}

// Readers open a file twice, to find its format and to read it. So standard input is copied to a temporary file.
topology load_from_standard_input(const machine_options& o) {
    std::string directory = (std::filesystem::temp_directory_path() / "terrace.XXXXXX").string();
    if (::mkdtemp(directory.data()) == nullptr)
        throw usage_error(fmt::format("-: no temporary directory: {}", std::strerror(errno)));
    const std::filesystem::path file = std::filesystem::path(directory) / "stdin";
    const at_end remove([&] {
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    });
    std::ofstream(file, std::ios::binary) << std::cin.rdbuf();
    machine_options from_file = o;
    from_file.source = file.string();
    try {
        return load_machine(from_file);
    } catch (const error& e) {
        std::string text = e.what();
        for (std::size_t i; (i = text.find(file.string())) != text.npos;)
            text.replace(i, file.string().size(), "standard input");
        throw usage_error(text);
    }
}

}  // namespace

topology load_machine(const machine_options& o) {
    if (o.source == "-") return load_from_standard_input(o);
    const std::vector<job_host> hosts = wanted_hosts(o);
    try {
        return load(o, hosts);
    } catch (const usage_error& e) {
        // A single word may be a misspelled file name.
        if (hosts.size() != 1 || hosts.front().name != o.hosts) throw;
        throw usage_error(fmt::format("{}; nor is there a file \"{}\" for --hosts", e.what(), *o.hosts));
    }
}

}  // namespace terrace::detail
