#include "bench/discover/settings.hpp"

#include <CLI/CLI.hpp>

#include "bench/option_words.hpp"
#include "tools/common/output_file.hpp"

namespace terrace::detail::bench {

namespace {

struct discover_line {
    discover_settings s;
    bool discover = true;
    CLI::App app{
        "Finds nodes, racks and planes by measuring, from nothing but the ranks, and writes them as a cluster file.\n"
        "Nothing else should run.",
        "--discover"};

    discover_line() {
        app.add_flag("--discover", discover, "find the machine by measuring, measure no collectives");
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

Exit status: 0 fine, 1 a contradiction or a failure, 2 bad usage or input, 3 measurements cannot tell.)");
    }
    discover_line(const discover_line&) = delete;
    discover_line& operator=(const discover_line&) = delete;
};

}  // namespace

std::variant<discover_settings, answer> parse_discover_settings(int argc, const char* const* argv) {
    return parse_mode<discover_settings, discover_line>("terrace-bench --discover", argc, argv);
}

std::shared_ptr<CLI::App> discover_page() { return page_of<discover_line>(); }

}  // namespace terrace::detail::bench
