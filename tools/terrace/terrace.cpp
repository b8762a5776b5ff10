#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <terrace/version.hpp>

#include "schedule/registry.hpp"
#include "tools/common/answer.hpp"
#include "tools/common/output.hpp"
#include "tools/common/pages.hpp"
#include "tools/common/spelling.hpp"
#include "tools/terrace/detect_command.hpp"
#include "tools/terrace/diff_command.hpp"
#include "tools/terrace/doctor_command.hpp"
#include "tools/terrace/drop_in_page.hpp"
#include "tools/terrace/explain_command.hpp"
#include "tools/terrace/export_command.hpp"
#include "tools/terrace/info_command.hpp"
#include "tools/terrace/plan_command.hpp"
#include "tools/terrace/report_command.hpp"
#include "tools/terrace/run_command.hpp"
#include "tools/terrace/simulate_command.hpp"
#include "tools/terrace/topo_command.hpp"
#include "tools/terrace/verify_command.hpp"
#include "topology/formats.hpp"

// The command line: what each command is told. CLI11 takes seconds to compile, so what commands do is elsewhere.

namespace terrace::detail {

namespace {

// Exit codes: 0 fine, 1 a check failed, 2 bad usage or input.
class command_line {
public:
    command_line();
    int run(int argc, char** argv);

private:
    // A command, which runs as `Command` once its options have set the members of that.
    template <class Command>
    std::pair<CLI::App&, Command&> add(const std::string& name, const std::string& description) {
        CLI::App* command = app_.add_subcommand(name, description);
        const auto what = std::make_shared<Command>();
        command->callback([this, what] { status_ = what->run(); });
        return {*command, *what};
    }

    void add_plan();
    void add_explain();
    void add_simulate();
    void add_verify();
    void add_topo();
    void add_diff();
    void add_detect();
    void add_doctor();
    void add_export();
    void add_run();
    void add_info();
    void add_report();

    CLI::App app_{"Plans for topology-aware hierarchical collectives", "terrace"};
    int status_ = 0;
};

// ---- options of several commands ------------------------------------------------------------------------------------

std::string no_rank_unit(const std::string& text) {
    return parse_rank_unit(text) ? "" : fmt::format("\"{}\" is none of {}", text, rank_unit_names());
}

std::vector<std::string> collective_names() {
    std::vector<std::string> names;
    for (const collective c : all_collectives) names.emplace_back(to_string(c));
    return names;
}

// Cluster files and plans are both YAML, and early on say which. Read as the other, either would only lack a key.
CLI::Validator no_file_with(const std::string& key, const std::string& advice) {
    return CLI::Validator(
        [key = "\n" + key + ":", advice](const std::string& file) {
            std::string text = "\n";
            if (std::error_code ignored; std::filesystem::is_regular_file(file, ignored)) {
                text.resize(4096);
                std::ifstream(file).read(&text[1], 4095);
            }
            return text.find(key) == text.npos ? "" : fmt::format(fmt::runtime(advice), file);
        },
        "");
}

void add_machine_options(CLI::App& command, machine_options& o) {
    command
        .add_option("MACHINE", o.source, fmt::format("{}; - reads a file from standard input", format_descriptions()))
        ->required()
        ->check(no_file_with("terrace_plan", "{0} is a plan already; to see what it does: terrace explain {0}"));
    command
        .add_option("--ranks", o.ranks,
                    "what a rank is, where one node is described: " + rank_unit_names() +
                        " (default: gpus if there are any, else cores)")
        ->check(no_rank_unit);
    command.add_option("--gpu-fabric", o.gpu_fabric,
                       "what links all GPUs of a node directly, where its file does not say: nvlink:300GB/s (xgmi, "
                       "xelink), all links of one GPU per direction; or none");
    command.add_option("--network,--slurm", o.network, "how such nodes are connected: " + network_descriptions());
    command.add_option("--network-name", o.network_name,
                       "which network of a file that has several (default: the one that it calls its default)");
    command
        .add_option("--link-unit", o.link_unit,
                    "unit of LinkSpeed in topology.conf, which Slurm does not define: gbit or mbit (default: gbit if "
                    "the file's smallest number is below 1000, else mbit)")
        ->check(CLI::IsMember({"gbit", "mbit"}));
    CLI::Option* hosts =
        command.add_option("--hosts", o.hosts, "only these nodes: an MPI host file, or a list as in 'tux[0-3,7]'");
    command.add_flag("--slurm-job", o.slurm_job, "only the nodes of this Slurm job (SLURM_JOB_NODELIST)")
        ->excludes(hosts);
}

void add_force(CLI::App& command, bool& force) {
    command.add_flag("--force", force, "replace an existing file even if Terrace did not write it");
}

void add_plan_option(CLI::App& command, std::filesystem::path& file) {
    command.add_option("PLAN", file, "plan file")->required();
}

void add_call_options(CLI::App& command, call_options& o) {
    command.add_option("--bytes", o.bytes, "message size, that of all blocks together; K M G T are binary")
        ->capture_default_str();
    command.add_option("--collective", o.collective, "which collective")
        ->transform(CLI::IsMember(collective_names(), [](const std::string& word) { return plain_letters(word); }))
        ->capture_default_str();
}

// ---- the commands ---------------------------------------------------------------------------------------------------

void command_line::add_plan() {
    auto [command, a] = add<plan_command>("plan", "Make a plan for a cluster");
    add_machine_options(command, a.machine);
    command.add_option(
        "-o,--output", a.output,
        "plan file to write; - prints it (default: the cluster's name with .plan.yaml, in this directory)");
    command.add_option("--wire", a.wire,
                       "wire types of levels, as in rack=bfloat16,node=int8: sums of floats may cross their links in "
                       "fewer bits, where options::rounds_on_wire asks for it");
    command.add_option("--profile", a.profile,
                       "a directory of TERRACE_PROFILE: correct the machine's figures by what calls took");
    command.add_flag("--sensitivity", a.sensitivity,
                     "print what half and twice the value of each assumed figure would change");
    command.add_flag("--reproducible", a.reproducible,
                     "for programs with options::reproducible: choose what is fastest with it");
    command
        .add_option("--burst", a.burst,
                    "bytes that the shaper of each network link lets pass at once: plans for short vectors are then "
                    "chosen by simulations that know of it")
        ->type_name("BYTES");
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

void command_line::add_explain() {
    auto [command, a] = add<explain_command>("explain", "Say why a plan does what it does, for one message size");
    add_plan_option(command, a.plan_file);
    add_call_options(command, a.call);
    CLI::Option* svg = command.add_flag("--svg", a.svg, "print a picture: the machine, its links' loads, the stages");
    CLI::Option* dot = command.add_flag("--dot", a.dot, "print the same as a graph for Graphviz")->excludes(svg);
    CLI::Option* rank =
        command.add_option("--rank", a.rank, "print the program of this rank: its instructions for the first chunk")
            ->check(CLI::NonNegativeNumber)
            ->excludes(svg)
            ->excludes(dot);
    command.add_flag("--connections", a.connections, "print how many ranks each one exchanges messages with")
        ->excludes(svg)
        ->excludes(dot)
        ->excludes(rank);
    command.footer(
        "Examples:\n"
        "  terrace explain cluster.plan.yaml\n"
        "  terrace explain cluster.plan.yaml --bytes 8K\n"
        "  terrace explain cluster.plan.yaml --collective broadcast\n"
        "  terrace explain cluster.plan.yaml --bytes 4K --rank 0\n"
        "  terrace explain cluster.plan.yaml --connections\n"
        "  terrace explain cluster.plan.yaml --svg");
}

void command_line::add_simulate() {
    auto [command, a] =
        add<simulate_command>("simulate", "Run a call of all ranks over the machine's links, in a model");
    add_plan_option(command, a.plan_file);
    add_call_options(command, a.call);
    command
        .add_option("--algorithm", a.origin,
                    "run staged or a baseline, as terrace-bench does, instead of what the plan says")
        ->check(
            CLI::IsMember({"staged", "flat-ring", "flat-rings", "two-level", "two-level-nics", "central", "direct"}));
    command.add_option(
        "--burst", a.burst,
        "bytes that the shaper of each network link lets pass at once, as tools/vcluster does with 128K");
    command.add_flag("--reproducible", a.reproducible,
                     "reduce by one tree over the ranks, as options::reproducible does");
    command.add_flag("--json", a.json, "print the result as JSON");
    command.add_option("--trace", a.trace, "write what ranks and links do as a Chrome trace (JSON) to this file");
    command.add_option("--svg", a.svg, "draw stages and link loads over time to this file");
    add_force(command, a.force);
    command.footer(
        "Examples:\n"
        "  terrace simulate cluster.plan.yaml --bytes 8M\n"
        "  terrace simulate cluster.plan.yaml --bytes 8M --algorithm flat-ring\n"
        "  terrace simulate cluster.plan.yaml --bytes 8M --burst 128K\n"
        "  terrace simulate cluster.plan.yaml --bytes 8M --svg timeline.svg --trace trace.json");
}

void command_line::add_verify() {
    auto [command, a] = add<verify_command>("verify", "Prove that a plan computes the right result on every rank");
    add_plan_option(command, a.plan_file);
    command
        .add_option(
            "--count", a.count,
            "elements (float32) of the message, or of each rank's block; default: 0, 1, P-1, P, 2P+3 and both sides of "
            "every rule's bound")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 48));
    command.add_flag("--whole", a.whole, "prove every program as a whole, however long that takes");
    command.footer(
        "Proves: sends and receives match, nothing races, nothing waits for ever, every contribution counts\n"
        "exactly once, for every collective. Exit code 1 and the first fault if not.\n\n"
        "Examples:\n"
        "  terrace verify cluster.plan.yaml\n"
        "  terrace verify cluster.plan.yaml --count 1000003");
}

void command_line::add_topo() {
    auto [command, a] = add<topo_command>("topo", "Print a machine: levels and rates, what ranks run on, their NICs");
    add_machine_options(command, a.machine);
    CLI::Option* json = command.add_flag("--json", a.json, "print a tree of objects as JSON");
    CLI::Option* yaml =
        command.add_flag("--yaml", a.yaml, "print a cluster file with the same levels, to be edited")->excludes(json);
    CLI::Option* svg = command.add_flag("--svg", a.svg, "print a picture (SVG)")->excludes(json)->excludes(yaml);
    command.add_flag("--dot", a.dot, "print a graph for Graphviz")->excludes(json)->excludes(yaml)->excludes(svg);
    command.footer(
        "Examples:\n"
        "  terrace topo cluster.yaml\n"
        "  terrace topo node.xml --json\n"
        "  terrace topo cluster.yaml --svg\n"
        "  terrace topo node.xml --network topology.conf --hosts 'tux[0-3,7]'\n"
        "  terrace topo \"package:2 core:4\"");
}

void command_line::add_diff() {
    auto [command, a] = add<diff_command>("diff", "Print what differs between two plans, at which sizes, and the gain");
    command.add_option("FIRST", a.before, "plan file")->required();
    command.add_option("SECOND", a.after, "plan file")->required();
    command.footer(
        "Exit code 0 if both plans run everything alike, 1 if they differ.\n\n"
        "Examples:\n"
        "  terrace diff before.plan.yaml after.plan.yaml");
}

void command_line::add_report() {
    auto [command, a] = add<report_command>("report", "Show plans and results of measurements as one page");
    command.add_option("FILE", a.files, "plans, and results: of terrace-bench --json or --suite, or other JSON")
        ->required();
    command.add_option("-o,--output", a.output,
                       "page to write, HTML that loads nothing; - prints it (default: results are printed as tables)");
    add_call_options(command, a.call);
    add_force(command, a.force);
    command.footer(
        "The page has the machine as a tree, rules and predicted times by size, and one call with its timeline. With "
        "a plan and results, what was measured stands beside what the plan predicts.\n\n"
        "Examples:\n"
        "  terrace report cluster.plan.yaml -o report.html\n"
        "  terrace report cluster.plan.yaml results.json -o report.html\n"
        "  terrace report cluster.plan.yaml --collective allgather --bytes 1M -o report.html\n"
        "  terrace report results.json");
}

void command_line::add_detect() {
    auto [command, a] = add<detect_command>("detect", "Describe this machine as a cluster file");
    command.add_option("-o,--output", a.output, "cluster file to write (default: print it)");
    command.add_option("--node-file", a.node_file,
                       "write the machine as hwloc XML to this file, which the cluster file then names");
    add_force(command, a.force);
    command
        .add_option("--ranks", a.ranks,
                    "what a rank is: " + rank_unit_names() + " (default: gpus if there are any, else cores)")
        ->check(no_rank_unit);
    command.footer(
        "Examples:\n"
        "  terrace detect\n"
        "  terrace detect -o here.yaml --node-file here.xml");
}

void command_line::add_doctor() {
    auto [command, a] = add<doctor_command>("doctor", "Say what would trip a run on this machine, and how to mend it");
    command.add_option("--plan", a.plan_file,
                       "while a job runs here: whether its ranks use the NICs that this plan gives them");
    command
        .add_option("--dumps", a.dumps,
                    "read the dumps of a stuck job in this directory (TERRACE_DUMP), and say who waits for whom")
        ->check(CLI::ExistingDirectory);
    command.footer(
        "Lines begin with ok, note (may matter) or FIX (will). Exit code 1 if there is a FIX.\n\n"
        "Examples:\n"
        "  terrace doctor\n"
        "  terrace doctor --plan PLAN                        (while a job of that plan runs)\n"
        "  terrace doctor --dumps /tmp/stuck                 (after TERRACE_DUMP=/tmp/stuck/job)\n"
        "  mpirun --hostfile hosts.txt -N 1 terrace doctor   (on every node, with Open MPI)");
}

void command_line::add_export() {
    auto [command, a] = add<export_command>("export", "Write a plan for other programs");
    add_plan_option(command, a.plan_file);
    command.add_flag("--rankfile", a.rankfile, "Open MPI's rankfile: ranks in the plan's order, one per core");
    command.add_flag("--hostfile", a.hostfile, "Open MPI's host file, where the plan names its hosts");
    CLI::Option* nics = command.add_flag("--nics", a.nics,
                                         "a script that runs a program with its messages through the NIC of its rank");
    command
        .add_option("--interfaces", a.interfaces,
                    "with --nics: a node's interfaces, or devices, in the order of its NICs")
        ->delimiter(',')
        ->needs(nics);
    command.add_flag("--simgrid", a.simgrid, "a platform file of SimGrid, a host per rank");
    command.add_flag("--json", a.json, "all of the plan as JSON");
    command.add_option("-o,--output", a.output, "file to write (default: print it)");
    add_force(command, a.force);
    command.footer(
        "Examples:\n"
        "  terrace export cluster.plan.yaml --json\n"
        "  terrace export cluster.plan.yaml --rankfile -o ranks.txt\n"
        "  terrace export nics.plan.yaml --nics --interfaces ib0,ib1 -o nics.sh\n"
        "  terrace export cluster.plan.yaml --simgrid -o platform.xml");
}

void command_line::add_run() {
    auto [command, a] =
        add<run_command>("run", "Run an MPI program that knows nothing of Terrace with its collectives");
    command.add_option("-n,--np", a.ranks, "ranks (default: as the launcher counts)")->check(CLI::PositiveNumber);
    command.add_option("--plan", a.plan, "the plan of all ranks (TERRACE_PLAN; default: one is made)")
        ->check(CLI::ExistingFile);
    command.add_option("--report", a.report, "file that says in the end who ran what (TERRACE_PMPI_REPORT)");
    command.add_option("--mode", a.mode, "auto, on or off, each for some sizes: off:-64K,auto (TERRACE_PMPI)");
    command.add_option("--mpi", a.mpi, "the program's MPI, where its file does not say: a script, for example")
        ->check(CLI::IsMember({"openmpi", "mpich"}));
    command.add_option("--launcher", a.launcher, "more arguments of mpirun, as in '--hostfile hosts.txt'");
    command.add_flag("--print", a.prints, "print the line, and run nothing");
    command.add_option("PROGRAM", a.program, "the program and its arguments, after --")->required();
    command.footer(
        "Prints the line of mpirun that loads the drop-in, and runs it.\n\n"
        "Examples:\n"
        "  terrace run -n 12 -- ./solver input.txt\n"
        "  terrace run -n 12 --plan cluster.plan.yaml --report report.json -- ./solver input.txt\n"
        "  terrace run -n 12 --mpi openmpi -- python3 script.py\n"
        "  terrace run --launcher '--hostfile hosts.txt' --print -- ./solver");
}

void command_line::add_info() {
    auto [command, a] =
        add<info_command>("info", "Say what this Terrace is, was built with, and reads from the environment");
    command.add_flag("--json", a.json, "Print JSON");
    command.footer(
        "Exit code 1 if the environment has a TERRACE_* variable that is unknown or has a bad value.\n\n"
        "Examples:\n"
        "  terrace info\n"
        "  terrace info --help");
}

command_line::command_line() {
    app_.set_version_flag("--version", fmt::format("terrace {}", version()));
    add_generate_option(app_, {{"man-drop-in", drop_in_page}});
    app_.require_subcommand(1);
    add_plan();
    add_explain();
    add_simulate();
    add_verify();
    add_topo();
    add_diff();
    add_detect();
    add_doctor();
    add_export();
    add_run();
    add_info();
    add_report();
    app_.footer(
        "Exit codes: 0 fine, 1 a check failed, 2 bad usage or input.\n\n"
        "Examples:\n"
        "  terrace plan cluster.yaml -o cluster.plan.yaml\n"
        "  terrace plan --help");
}

int command_line::run(int argc, char** argv) {
    try {
        const std::optional<answer> said = answer_to(app_, argc, argv);
        if (!said) return status_;
        if (said->exit_code == 0) say_text(said->text);
        else fmt::print(stderr, "{}", said->text);
        return said->exit_code;
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 2;
    }
}

}  // namespace

}  // namespace terrace::detail

int main(int argc, char** argv) { return terrace::detail::command_line().run(argc, argv); }
