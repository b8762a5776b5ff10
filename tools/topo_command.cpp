#include "tools/topo_command.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tools/machine.hpp"
#include "tools/picture.hpp"
#include "topology/cluster_yaml.hpp"
#include "topology/describe.hpp"

namespace terrace {

namespace {

std::vector<picture::inside> insides_of(const topology& t) {
    if (t.node) return {{"inside a node", t.node.get()}};
    std::vector<picture::inside> all;
    for (const topology::node_type& type : t.types)
        if (type.node) all.push_back({fmt::format("inside a node of type {}", type.name), type.node.get()});
    return all;
}

picture picture_of(const topology& t) {
    const std::size_t nodes = t.machine.node_sizes().size();
    return {.machine = t.machine,
            .title = t.name,
            .subtitle = fmt::format("{} ranks in {} node{} ({}); links: per direction", t.machine.ranks(), nodes,
                                    nodes == 1 ? "" : "s", shape_text(t.machine.shape)),
            .nodes = insides_of(t)};
}

}  // namespace

void add_topo_command(CLI::App& app) {
    struct arguments {
        machine_options machine;
        bool json = false;
        bool yaml = false;
        bool svg = false;
        bool dot = false;
    };
    const auto given = std::make_shared<arguments>();
    CLI::App* topo = app.add_subcommand("topo", "Print a machine: levels and rates, what ranks run on, their NICs");
    add_machine_options(*topo, given->machine, "MACHINE");
    CLI::Option* json = topo->add_flag("--json", given->json, "print a tree of objects as JSON");
    CLI::Option* yaml =
        topo->add_flag("--yaml", given->yaml, "print a cluster file with the same levels, to be edited")->excludes(json);
    CLI::Option* svg = topo->add_flag("--svg", given->svg, "print a picture (SVG)")->excludes(json)->excludes(yaml);
    topo->add_flag("--dot", given->dot, "print a graph for Graphviz")->excludes(json)->excludes(yaml)->excludes(svg);
    topo->footer("Examples:\n"
                 "  terrace topo cluster.yaml\n"
                 "  terrace topo node.xml --json\n"
                 "  terrace topo cluster.yaml --svg\n"
                 "  terrace topo node.xml --slurm topology.conf --hosts 'tux[0-3,7]'\n"
                 "  terrace topo \"package:2 core:4\"");
    topo->callback([given] {
        const topology t = load_machine(given->machine);
        const std::string text = given->json   ? describe_json(t)
                                 : given->yaml ? write_cluster(t)
                                 : given->svg  ? draw_svg(picture_of(t))
                                 : given->dot  ? draw_dot(picture_of(t))
                                               : describe_text(t);
        std::fwrite(text.data(), 1, text.size(), stdout);
    });
}

}  // namespace terrace
