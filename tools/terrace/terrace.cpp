#include <exception>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <terrace/version.hpp>

#include "tools/common/answer.hpp"
#include "tools/common/output.hpp"
#include "tools/common/pages.hpp"
#include "tools/terrace/command_list.hpp"

namespace terrace::detail {

namespace {

// Exit codes: 0 success, 1 a check failed, 2 bad usage or input.
int run_command_line(int argc, char** argv) {
    CLI::App app{"Plans for topology-aware hierarchical collectives", "terrace"};
    app.set_version_flag("--version", fmt::format("terrace {}", version()));
    add_generate_option(app, {{"man-drop-in", drop_in_page}});
    app.require_subcommand(1);
    command_list commands(app);
    add_plan_commands(commands);
    add_machine_commands(commands);
    app.footer(
        "Exit codes: 0 success, 1 a check failed, 2 bad usage or input.\n\n"
        "Examples:\n"
        "  terrace plan cluster.yaml -o cluster.plan.yaml\n"
        "  terrace plan --help");
    try {
        const std::optional<answer> said = answer_to(app, argc, argv);
        if (!said) return commands.status();
        if (said->exit_code == 0) say_text(said->text);
        else complain_text(said->text);
        return said->exit_code;
    } catch (const std::exception& e) {
        print_error("{}\n", e.what());
        return 2;
    }
}

}  // namespace

}  // namespace terrace::detail

int main(int argc, char** argv) { return terrace::detail::run_command_line(argc, argv); }
