#include "bench/detect.hpp"

#include <fmt/format.h>

#include "api/auto_plan.hpp"
#include "base/document.hpp"
#include "base/hierarchy_yaml.hpp"
#include "bench/arguments.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace terrace::bench {

std::variant<detect_settings, answer> parse_detect_settings(int argc, const char* const* argv) {
    detect_settings s;
    bool detect = true;
    CLI::App app("Describes all nodes of a job as a cluster file: equal nodes alike, unequal ones as they are.\n"
                 "Ranks that are bound to cores of their own are where those are.", "terrace-bench --detect");
    app.add_flag("--detect", detect, "describe the job's nodes, measure no collectives")->required();
    app.add_flag("--measure", s.measure, "measure the rates, as --links does: some seconds a level, nothing else running");
    app.add_option("-o,--output", s.output_file, "cluster file to write (default: print it)")->type_name("FILE");
    app.add_option("--name", s.name, "what the machine is called (default: by its first host)")->type_name("NAME");
    app.add_flag("--progress", s.progress, "show progress on stderr though it is no terminal, as under mpirun");
    app.footer(R"(
Examples:
  mpirun -np 8 --bind-to core terrace-bench --detect --measure -o cluster.yaml
  tools/vcluster run -- build/bench/terrace-bench --detect --measure
  terrace plan cluster.yaml

Exit status: 0 fine, 1 a failure, 2 bad usage or input.)");
    if (const auto said = answer_to(app, argc, argv, [] {})) return *said;
    return s;
}

detected detect(const world& w) {
    const auto net = make_mpi_transport(w.comm(), identity_of("terrace-bench --detect"));
    const job found = describe_job(*net);
    std::vector<int> places(static_cast<std::size_t>(w.size()));
    net->gather_all(&found.place, places.data(), sizeof(int));
    detected all{{}, std::vector<int>(places.size())};
    for (std::size_t r = 0; r < places.size(); ++r) all.ranks[static_cast<std::size_t>(places[r])] = static_cast<int>(r);
    const std::string text = w.from_first(w.first() ? write_hierarchy(found.machine, 0) : "");
    all.machine = read_hierarchy(document::parse(text, "the job's machine"));
    return all;
}

}  // namespace terrace::bench
