#include "bench/modes.hpp"

#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bench/option_words.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"

// The command lines of modes; that of --training is in a file of its own.

namespace terrace::detail::bench {

namespace {

struct links_line {
    links_settings s;
    CLI::App app{
        "Measures the links of a cluster and what its ranks add up, and writes that into its description.\n"
        "One rank per place, node by node, and nothing else running.",
        "--links"};

    links_line() {
        app.add_flag("--links")->description("measure links, not collectives");
        app.add_option("--topology", s.topology_file, "cluster file that says how ranks nest")
            ->required()
            ->type_name("FILE");
        add_output(app, "-o,--output", s.output_file, "cluster file to write, with what was measured")
            ->type_name("FILE");
        add_choice<bool>(app, "--device", s.device, "host", {{"host", false}, {"cuda", true}})
            ->description("cuda: what NCCL and MPI take for buffers on GPUs, one for each rank");
        app.add_flag_callback(
            "--anywhere", [this] { s.place = options::placement::anywhere; },
            "the ranks need not be on the nodes of the file: to try it on one machine");
        add_force(app, s.force);
        add_progress(app, s.progress);
        app.footer(R"(
Examples:
  mpirun -np 8 terrace-bench --links --topology cluster.yaml -o measured.yaml
  mpirun -np 8 terrace-bench --links --device cuda --topology cluster.yaml -o measured.yaml
  tools/vcluster run -- build/bench/terrace-bench --links --topology topologies/two-by-four/cluster.yaml
  terrace plan measured.yaml

Exit status: 0 success, 1 a failure, 2 bad usage or input.)");
    }
};

struct detect_line {
    detect_settings s;
    CLI::App app{
        "Describes all nodes of a job as a cluster file: equal nodes alike, unequal ones as they are.\n"
        "Ranks that are bound to cores of their own are where those are.",
        "--detect"};

    detect_line() {
        app.add_flag("--detect")->description("describe the job's nodes, measure no collectives");
        app.add_flag("--measure", s.measure,
                     "measure the rates, as --links does: some seconds a level, nothing else running");
        add_output(app, "-o,--output", s.output_file, "cluster file to write (default: print it)")->type_name("FILE");
        app.add_option("--name", s.name, "what the machine is called (default: by its first host)")->type_name("NAME");
        add_force(app, s.force);
        add_progress(app, s.progress);
        app.footer(R"(
Examples:
  mpirun -np 8 --bind-to core terrace-bench --detect --measure -o cluster.yaml
  tools/vcluster run -- build/bench/terrace-bench --detect --measure
  terrace plan cluster.yaml

Exit status: 0 success, 1 a failure, 2 bad usage or input.)");
    }
};

struct discover_line {
    discover_settings s;
    CLI::App app{
        "Finds nodes, racks and planes by measuring, from nothing but the ranks, and writes them as a cluster file.\n"
        "Nothing else should run.",
        "--discover"};

    discover_line() {
        app.add_flag("--discover")->description("find the machine by measuring, measure no collectives");
        add_output(app, "-o,--output", s.output_file, "cluster file to write (default: print it)")->type_name("FILE");
        app.add_option("--compare", s.compare_file,
                       "cluster file that says how it should be: contradictions are named, and the exit status is 1 "
                       "if there are any")
            ->type_name("FILE");
        app.add_option("--name", s.name, "what the machine is called (default: discovered)")->type_name("NAME");
        app.add_flag("--trust-hosts", s.trust_hosts, "nodes are the hosts; measure only what is between them");
        app.add_option("--seed", s.seed, "which pairs are measured")->type_name("N")->capture_default_str();
        app.add_option("--time-limit", s.time_limit, "measure for so long at most (default: 45 and one for each rank)")
            ->type_name("SECONDS")
            ->check(number_of(1));
        add_transport(app, s.ucx);
        add_force(app, s.force);
        add_progress(app, s.progress);
        app.footer(R"(
Examples:
  mpirun -np 12 terrace-bench --discover -o cluster.yaml
  mpirun -np 12 terrace-bench --discover --compare cluster.yaml
  tools/vcluster run -- build/bench/terrace-bench --discover --progress
  terrace plan cluster.yaml

Exit status: 0 success, 1 a contradiction or a failure, 2 bad usage or input, 3 measurements cannot tell.)");
    }
};

struct chaos_line {
    chaos_settings s;
    CLI::App app{
        "Kills ranks, one after the other, at random points of random calls, and says whether the others name the "
        "right one,\nhow soon, and how soon they go on without it. As many ranks as are killed do not come back.",
        "--chaos"};

    chaos_line() {
        app.add_option("--chaos", s.failures, "how many ranks to kill; one at least is left")
            ->required()
            ->check(number_of(1))
            ->type_name("N");
        app.add_option("--plan", s.plan_file, "plan file, made by: terrace plan")->required()->type_name("FILE");
        app.add_option("--seed", s.seed, "which ranks are killed, and when")->type_name("N")->capture_default_str();
        add_placement(app, s.place);
        add_transport(app, s.ucx);
        app.footer(R"(
Over Open MPI 4.1 ranks survive under mpirun --enable-recovery alone, over Open MPI 5 under mpirun --with-ft ulfm
--runtime-options error-nonzero-status=0. mpirun itself may not end: interrupt it. Over MPICH ranks do not survive.

Examples:
  mpirun --enable-recovery -np 8 terrace-bench --chaos 3 --plan plan.yaml
  tools/vcluster run --mpi-arg=--enable-recovery -- terrace-bench --chaos 3 --plan plan.yaml

Exit status: 0 success, 1 a wrong rank was named, a wrong result or another failure, 2 bad usage or input.)");
    }
};

// For the help page only: tools/bench-suite parses its own command line.
struct suite_line {
    CLI::App app{
        "Runs the whole comparison on a cluster, Open MPI in several settings included, and draws it.\n"
        "It starts its runs by itself, without mpirun.",
        "--suite"};

    suite_line() {
        app.add_flag("--suite")->description("the whole comparison, not one run");
        app.add_option("CLUSTER")->required()->description("cluster file");
        app.add_flag("--emulate")->description("on this machine, by tools/vcluster");
        const auto add = [&](const char* names, const char* value, const char* description) {
            app.add_option(names)->type_name(value)->description(description);
        };
        add("--launch", "LINE", "what starts MPI programs; -np and what follows are added");
        add("-o", "DIR", "the folder of its results");
        add("--collective", "NAME", "one of them; default: allreduce");
        add("-b", "BYTES", "smallest size");
        add("-e", "BYTES", "largest size");
        add("-f", "N", "from size to size");
        add("-n", "N", "iterations of a row at least");
        add("--rounds", "N", "where nodes have several NICs: turns of each run");
        add("--nics", "SCRIPT", "gives each rank its NIC, from terrace export --to nics");
        add("--bench-options", "LINE", "more options of terrace-bench");
    }
};

}  // namespace

std::variant<links_settings, answer> parse_links_settings(int argc, const char* const* argv) {
    return parse_mode<links_settings, links_line>("terrace-bench --links", argc, argv);
}

std::variant<detect_settings, answer> parse_detect_settings(int argc, const char* const* argv) {
    return parse_mode<detect_settings, detect_line>("terrace-bench --detect", argc, argv);
}

std::variant<discover_settings, answer> parse_discover_settings(int argc, const char* const* argv) {
    return parse_mode<discover_settings, discover_line>("terrace-bench --discover", argc, argv);
}

std::variant<chaos_settings, answer> parse_chaos_settings(int argc, const char* const* argv) {
    return parse_mode<chaos_settings, chaos_line>("terrace-bench --chaos", argc, argv);
}

std::vector<std::shared_ptr<CLI::App>> mode_pages() {
    return {page_of<detect_line>(), page_of<discover_line>(), page_of<links_line>(),
            page_of<suite_line>(),  training_page(),          page_of<chaos_line>()};
}

std::string now_text() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

void say(const world& w, const std::string& text) {
    w.on_first([&] { say_text(text); });
}

}  // namespace terrace::detail::bench
