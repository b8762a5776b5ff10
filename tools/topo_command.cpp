#include "tools/topo_command.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/machine.hpp"
#include "topology/cluster_yaml.hpp"
#include "topology/describe.hpp"

namespace terrace {

void add_topo_command(CLI::App& app) {
    struct arguments {
        machine_options machine;
        bool json = false;
        bool yaml = false;
    };
    const auto given = std::make_shared<arguments>();
    CLI::App* topo = app.add_subcommand("topo", "Print a machine: levels and rates, what ranks run on, their NICs");
    add_machine_options(*topo, given->machine, "MACHINE");
    CLI::Option* json = topo->add_flag("--json", given->json, "print a tree of objects as JSON");
    topo->add_flag("--yaml", given->yaml, "print a cluster file with the same levels, to be edited")->excludes(json);
    topo->footer("Examples:\n"
                 "  terrace topo cluster.yaml\n"
                 "  terrace topo node.xml --json\n"
                 "  terrace topo node.xml --slurm topology.conf --hosts 'tux[0-3,7]'\n"
                 "  terrace topo \"package:2 core:4\"");
    topo->callback([given] {
        const topology t = load_machine(given->machine);
        const std::string text = given->json ? describe_json(t) : given->yaml ? write_cluster(t) : describe_text(t);
        std::fwrite(text.data(), 1, text.size(), stdout);
    });
}

}  // namespace terrace
