#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "schedule/registry.hpp"
#include "tools/common/output_file.hpp"
#include "tools/terrace/command_list.hpp"

// Options of the commands about plans.

namespace terrace::detail {

namespace {

void add_plan(command_list& commands) {
    auto [command, a] = commands.add<plan_command>("plan", "Make a plan for a cluster");
    add_machine_options(command, a.machine);
    add_output(command, "-o,--output", a.output,
               "plan file to write (default: the cluster's name with .plan.yaml, in this directory)");
    command.add_option("--wire", a.wire,
                       "wire types of levels, as in rack=bfloat16,node=int8: sums of floats may cross their links in "
                       "fewer bits, where options::rounds_on_wire asks for it");
    command.add_option(
        "--profile", a.profile,
        "a directory of TERRACE_PROFILE: correct the machine's figures by what calls took, and keep the rules of "
        "the fastest calls");
    command.add_flag("--sensitivity", a.sensitivity,
                     "print what half and twice the value of each assumed figure would change");
    command.add_flag("--reproducible", a.reproducible,
                     "for programs with options::reproducible: choose what is fastest with it");
    command
        .add_option("--candidate", a.candidate,
                    "plan with the candidates in this place by price at every size, 1 for the cheapest: to measure "
                    "them beside the plan (terrace-bench --beside)")
        ->check(CLI::PositiveNumber)
        ->type_name("N");
    add_force(command, a.force);
    const auto listed = [](std::span<const algorithm> rows) {
        std::string text;
        for (const algorithm& each : rows) text += fmt::format("  {:<15}{}\n", each.name, each.summary);
        return text;
    };
    command.footer("Algorithms of a stage:\n" + listed(algorithms()) + "\nProviders that run a stage by themselves:\n" +
                   listed(provider_collectives()) +
                   "\nExamples:\n"
                   "  terrace plan cluster.yaml\n"
                   "  terrace plan cluster.yaml -o cluster.plan.yaml\n"
                   "  terrace plan cluster.yaml -o -\n"
                   "  terrace plan cluster.yaml --wire core=bfloat16\n"
                   "  terrace plan cluster.yaml --sensitivity\n"
                   "  terrace plan cluster.yaml --profile profiles\n"
                   "  terrace plan cluster.yaml --reproducible\n"
                   "  terrace plan cluster.yaml --candidate 2 -o second.plan.yaml\n"
                   "  terrace plan node.xml --network topology.conf --hosts 'tux[0-7]'");
}

void add_explain(command_list& commands) {
    auto [command, a] =
        commands.add<explain_command>("explain", "Say why a plan does what it does, for one message size");
    add_plan_option(command, a.plan_file);
    add_call_options(command, a.call);
    command.add_option("--rank", a.rank, "print the program of this rank: its instructions for the first chunk")
        ->check(CLI::NonNegativeNumber);
    command.footer(
        "Examples:\n"
        "  terrace explain cluster.plan.yaml\n"
        "  terrace explain cluster.plan.yaml --bytes 8K\n"
        "  terrace explain cluster.plan.yaml --collective broadcast\n"
        "  terrace explain cluster.plan.yaml --bytes 4K --rank 0");
}

void add_simulate(command_list& commands) {
    auto [command, a] =
        commands.add<simulate_command>("simulate", "Run a call of all ranks over the machine's links, in a model");
    add_plan_option(command, a.plan_file);
    add_call_options(command, a.call);
    command
        .add_option("--algorithm", a.origin,
                    "run staged or a baseline, as terrace-bench does, instead of what the plan says")
        ->check(
            CLI::IsMember({"staged", "flat-ring", "flat-rings", "two-level", "two-level-nics", "central", "direct"}));
    command.add_flag("--reproducible", a.reproducible,
                     "reduce by one tree over the ranks, as options::reproducible does");
    command.add_flag("--json", a.json, "print the result as JSON");
    add_output(command, "--trace", a.trace, "write what ranks and links do as a Chrome trace (JSON) to this file");
    add_force(command, a.force);
    command.footer(
        "Examples:\n"
        "  terrace simulate cluster.plan.yaml --bytes 8M\n"
        "  terrace simulate cluster.plan.yaml --bytes 8M --algorithm flat-ring\n"
        "  terrace simulate cluster.plan.yaml --bytes 8M --trace trace.json");
}

void add_verify(command_list& commands) {
    auto [command, a] =
        commands.add<verify_command>("verify", "Prove that a plan computes the right result on every rank");
    command.add_option("PLAN", a.plan_file, "plan file, or OUT of terrace export")->required();
    command
        .add_option(
            "--count", a.count,
            "elements (float32) of the message, or of each rank's block; default: 0, 1, P-1, P, 2P+3 and both sides of "
            "every rule's bound")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 48));
    command.add_flag("--whole", a.whole, "prove every program as a whole, however long that takes");
    command.add_option("--plan", a.made_of, "of an exported file: the plan that it must agree with");
    command.footer(
        "Proves: sends and receives match, nothing races, nothing waits for ever, every contribution counts\n"
        "exactly once, for every collective. Exit code 1 and the first fault if not.\n\n"
        "Examples:\n"
        "  terrace verify cluster.plan.yaml\n"
        "  terrace verify cluster.plan.yaml --count 1000003\n"
        "  terrace verify traces\n"
        "  terrace verify ranks.txt --plan cluster.plan.yaml");
}

void add_diff(command_list& commands) {
    auto [command, a] =
        commands.add<diff_command>("diff", "Print what differs between two plans, at which sizes, and the gain");
    command.add_option("FIRST", a.before, "plan file")->required();
    command.add_option("SECOND", a.after, "plan file")->required();
    command.footer(
        "Exit code 0 if both plans run everything alike, 1 if they differ.\n\n"
        "Examples:\n"
        "  terrace diff before.plan.yaml after.plan.yaml");
}

void add_export(command_list& commands) {
    auto [command, a] = commands.add<export_command>("export", "Write a plan for other programs");
    add_plan_option(command, a.plan_file);
    command.add_option("--to", a.format, "one of the formats below")->required()->type_name("FORMAT");
    command
        .add_option("--interfaces", a.options.interfaces,
                    "with --to nics: a node's interfaces, or devices, in the order of its NICs")
        ->delimiter(',');
    add_call_options(command, a.call);
    add_output(command, "-o,--output", a.output, "file to write (default: print it)");
    add_force(command, a.force);
    std::string formats = "Formats:\n";
    for (const export_format& f : export_formats()) formats += fmt::format("  {:<12} {}\n", f.name, f.description);
    command.footer(formats +
                   "\nExamples:\n"
                   "  terrace export cluster.plan.yaml --to json\n"
                   "  terrace export cluster.plan.yaml --to rankfile -o ranks.txt\n"
                   "  terrace export nics.plan.yaml --to nics --interfaces ib0,ib1 -o nics.sh\n"
                   "  terrace export cluster.plan.yaml --to simgrid -o platform.xml\n"
                   "  terrace export cluster.plan.yaml --to chakra --bytes 1M -o traces");
}

void add_report(command_list& commands) {
    auto [command, a] = commands.add<report_command>("report", "Show plans and results of measurements as one page");
    command
        .add_option("FILE", a.files,
                    "plans, results (of terrace-bench --json or --suite, or other JSON), and directories of "
                    "TERRACE_STATISTICS")
        ->required();
    add_output(command, "-o,--output", a.output,
               "page to write, HTML that loads nothing (default: results are printed as tables)");
    add_call_options(command, a.call);
    add_force(command, a.force);
    command.footer(
        "The page has the machine as a tree, rules and predicted times by size, and one call with its timeline. With "
        "a plan and results, what was measured stands beside what the plan predicts.\n\n"
        "Examples:\n"
        "  terrace report cluster.plan.yaml -o report.html\n"
        "  terrace report cluster.plan.yaml results.json -o report.html\n"
        "  terrace report cluster.plan.yaml --collective allgather --bytes 1M -o report.html\n"
        "  terrace report results.json\n"
        "  terrace report statistics                         (after TERRACE_STATISTICS=statistics: who is late)");
}

}  // namespace

void add_plan_commands(command_list& commands) {
    add_plan(commands);
    add_explain(commands);
    add_simulate(commands);
    add_verify(commands);
    add_diff(commands);
    add_export(commands);
    add_report(commands);
}

}  // namespace terrace::detail
