#include "tools/export_command.hpp"

#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "plan/plan_yaml.hpp"
#include "tools/exports.hpp"

namespace terrace {

namespace {

struct arguments {
    std::filesystem::path plan;
    bool rankfile = false, hostfile = false, simgrid = false, json = false;
    std::string output;
};

void run(const arguments& a) {
    if (a.rankfile + a.hostfile + a.simgrid + a.json != 1)
        throw usage_error("terrace export: give one of --rankfile, --hostfile, --simgrid and --json");
    const recipe plan = read_plan(a.plan);
    const std::string text = a.rankfile   ? rankfile(plan.machine)
                             : a.hostfile ? hostfile(plan.machine)
                             : a.simgrid  ? simgrid_platform(plan.machine, plan.name)
                                          : plan_json(plan);
    if (a.output.empty()) fmt::print("{}", text);
    else write_atomically(a.output, text);
}

}  // namespace

void add_export_command(CLI::App& app) {
    auto* command = app.add_subcommand("export", "Write a plan for other programs");
    const auto a = std::make_shared<arguments>();
    command->add_option("PLAN", a->plan, "plan file")->required();
    command->add_flag("--rankfile", a->rankfile, "Open MPI's rankfile: ranks in the plan's order, one per core");
    command->add_flag("--hostfile", a->hostfile, "Open MPI's host file, where the plan names its hosts");
    command->add_flag("--simgrid", a->simgrid, "a platform file of SimGrid, a host per rank");
    command->add_flag("--json", a->json, "all of the plan as JSON");
    command->add_option("-o,--output", a->output, "file to write (default: print it)");
    command->footer("Examples:\n"
                    "  terrace export cluster.plan.yaml --json\n"
                    "  terrace export cluster.plan.yaml --rankfile -o ranks.txt\n"
                    "  terrace export cluster.plan.yaml --simgrid -o platform.xml");
    command->callback([a] { run(*a); });
}

}  // namespace terrace
