#include "tools/detect_command.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/document.hpp"
#include "topology/cluster_yaml.hpp"
#include "topology/describe.hpp"
#include "topology/hwloc_xml.hpp"

namespace terrace {

namespace {

struct arguments {
    std::string output;
    std::string node_file;
    std::string ranks;
};

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

// The node inside the cluster file, or as a file of its own beside it.
std::string cluster_file(const topology& t, const arguments& a) {
    const std::string head =
        fmt::format("# {}, as hwloc sees it. Rates under `assumed` are not measured; correct what you know better.\n",
                    t.name);
    if (a.node_file.empty()) return head + write_cluster(t);
    write_atomically(a.node_file, this_hardware_xml());
    const std::filesystem::path directory = std::filesystem::path(a.output).parent_path();
    const std::filesystem::path node =
        a.output.empty() ? std::filesystem::path(a.node_file)
                         : std::filesystem::path(a.node_file).lexically_relative(directory.empty() ? "." : directory);
    return head + fmt::format("terrace_topology: 1\nname: {}\nnode: {{hwloc: {}{}}}\n", yaml_scalar(t.name),
                              yaml_scalar((node.empty() ? std::filesystem::absolute(a.node_file) : node).string()),
                              a.ranks.empty() ? "" : ", ranks: " + a.ranks);
}

void run(const arguments& a) {
    topology t = single_node(host_name(), place_ranks(this_hardware(), parse_rank_unit(a.ranks), "this machine"));
    t.machine.hosts = {t.name};
    const std::string text = cluster_file(t, a);
    if (a.output.empty()) {
        fmt::print("{}", text);
        return;
    }
    write_atomically(a.output, text);
    fmt::print("{}\ncluster file: {}\n", describe_text(t), a.output);
}

}  // namespace

void add_detect_command(CLI::App& app) {
    const auto given = std::make_shared<arguments>();
    CLI::App* detect = app.add_subcommand("detect", "Describe this machine as a cluster file");
    detect->add_option("-o,--output", given->output, "cluster file to write (default: print it)");
    detect->add_option("--node-file", given->node_file,
                       "write the machine as hwloc XML to this file, which the cluster file then names");
    detect->add_option("--ranks", given->ranks,
                       "what a rank is: " + rank_unit_names() + " (default: gpus if there are any, else cores)")
        ->check([](const std::string& text) {
            return parse_rank_unit(text) ? "" : fmt::format("\"{}\" is none of {}", text, rank_unit_names());
        });
    detect->footer("Examples:\n"
                   "  terrace detect\n"
                   "  terrace detect -o cluster.yaml --node-file node.xml");
    detect->callback([given] { run(*given); });
}

}  // namespace terrace
