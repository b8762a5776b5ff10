#include "bench/suite/settings.hpp"

#include <CLI/CLI.hpp>

#include "bench/option_words.hpp"

namespace terrace::detail::bench {

namespace {

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

std::shared_ptr<CLI::App> suite_page() { return page_of<suite_line>(); }

}  // namespace terrace::detail::bench
