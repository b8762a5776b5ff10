#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <terrace/version.hpp>

#include "tools/detect_command.hpp"
#include "tools/doctor_command.hpp"
#include "tools/explain_command.hpp"
#include "tools/export_command.hpp"
#include "tools/info_command.hpp"
#include "tools/pages.hpp"
#include "tools/plan_command.hpp"
#include "tools/simulate_command.hpp"
#include "tools/topo_command.hpp"
#include "tools/verify_command.hpp"

// Exit codes: 0 fine, 1 a check failed, 2 bad usage or input.
int main(int argc, char** argv) {
    int status = 0;
    CLI::App app("Plans for topology-aware hierarchical collectives", "terrace");
    app.set_version_flag("--version", fmt::format("terrace {}", terrace::version()));
    terrace::add_generate_option(app);
    app.require_subcommand(1);
    terrace::add_plan_command(app, status);
    terrace::add_explain_command(app, status);
    terrace::add_simulate_command(app);
    terrace::add_verify_command(app, status);
    terrace::add_topo_command(app);
    terrace::add_detect_command(app);
    terrace::add_doctor_command(app, status);
    terrace::add_export_command(app);
    terrace::add_info_command(app, status);
    app.footer("Exit codes: 0 fine, 1 a check failed, 2 bad usage or input.\n\n"
               "Examples:\n"
               "  terrace plan cluster.yaml -o cluster.plan.yaml\n"
               "  terrace plan --help");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? 0 : 2;
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 2;
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        fmt::print(stderr, "terrace: the output could not be written; is the device full?\n");
        return 2;
    }
    return status;
}
