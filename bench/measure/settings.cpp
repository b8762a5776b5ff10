#include "bench/measure/settings.hpp"

#include <CLI/CLI.hpp>

#include "bench/measure/detect.hpp"
#include "bench/measure/links.hpp"
#include "bench/option_words.hpp"
#include "tools/common/output_file.hpp"

namespace terrace::detail::bench {

namespace {

struct links_line {
    links_settings s;
    bool links = true;
    CLI::App app{
        "Measures the links of a cluster and what its ranks add up, and writes that into its description.\n"
        "One rank per place, node by node, and nothing else running.",
        "--links"};

    links_line() {
        app.add_flag("--links", links, "measure links, not collectives");
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

Exit status: 0 fine, 1 a failure, 2 bad usage or input.)");
    }
    links_line(const links_line&) = delete;
    links_line& operator=(const links_line&) = delete;
};

struct detect_line {
    detect_settings s;
    bool detect = true;
    CLI::App app{
        "Describes all nodes of a job as a cluster file: equal nodes alike, unequal ones as they are.\n"
        "Ranks that are bound to cores of their own are where those are.",
        "--detect"};

    detect_line() {
        app.add_flag("--detect", detect, "describe the job's nodes, measure no collectives");
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

Exit status: 0 fine, 1 a failure, 2 bad usage or input.)");
    }
    detect_line(const detect_line&) = delete;
    detect_line& operator=(const detect_line&) = delete;
};

}  // namespace

std::variant<links_settings, answer> parse_links_settings(int argc, const char* const* argv) {
    return parse_mode<links_settings, links_line>("terrace-bench --links", argc, argv);
}

std::variant<detect_settings, answer> parse_detect_settings(int argc, const char* const* argv) {
    return parse_mode<detect_settings, detect_line>("terrace-bench --detect", argc, argv);
}

std::shared_ptr<CLI::App> links_page() { return page_of<links_line>(); }

std::shared_ptr<CLI::App> detect_page() { return page_of<detect_line>(); }

}  // namespace terrace::detail::bench
