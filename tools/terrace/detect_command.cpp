#include "tools/terrace/commands.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/document.hpp"
#include "base/hosts.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "topology/describe.hpp"
#include "topology/formats/cluster.hpp"
#include "topology/formats/hwloc.hpp"
#include "topology/nodes.hpp"

namespace terrace::detail {

namespace {

// Returns the cluster file. The node is inside the file, or in a separate file that this function writes.
std::string cluster_file(const topology& t, const std::string& xml, const detect_command& a) {
    const std::string head = fmt::format(
        "# {}, as hwloc sees it; made by terrace detect. Rates under `assumed` are not measured; correct them.\n",
        t.name);
    if (a.node_file.empty()) return head + write_cluster(t);
    write_atomically(a.node_file, xml);
    const std::filesystem::path directory = a.output.parent_path();
    const std::filesystem::path node =
        is_printed(a.output) ? a.node_file : a.node_file.lexically_relative(directory.empty() ? "." : directory);
    return head + fmt::format("terrace_topology: 1\nname: {}\nnode: {{hwloc: {}{}}}\n", yaml_scalar(t.name),
                              yaml_scalar((node.empty() ? std::filesystem::absolute(a.node_file) : node).string()),
                              a.ranks.empty() ? "" : ", ranks: " + a.ranks);
}

}  // namespace

topology this_machine(hardware parts, const std::string& ranks) {
    const std::string host = host_name();
    topology t = single_node(host.empty() ? "localhost" : host,
                             place_ranks(std::move(parts), parse_rank_unit(ranks), "this machine"));
    t.machine.hosts = {t.name};
    return t;
}

int detect_command::run() const {
    if (node_file == "-") throw usage_error("--node-file -: the cluster file names it; name a file");
    expect_replaceable(output, {node_file}, force);
    expect_replaceable(node_file, {}, force);
    usable_machine here = usable_hardware();
    const topology t = this_machine(std::move(here.parts), ranks);
    write_output(output, cluster_file(t, here.xml, *this));
    if (!is_printed(output)) say("{}\ncluster file: {}\n", describe_text(t), output.string());
    return 0;
}

}  // namespace terrace::detail
