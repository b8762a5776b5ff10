#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "tools/terrace/commands.hpp"

namespace terrace::detail {

/// The commands of a command line that is parsed later. CLI11 takes seconds to compile, so commands are implemented
/// elsewhere.
class command_list {
public:
    explicit command_list(CLI::App& app) : app_(app) {}

    /// Adds a command. Once the options have set the members of `Command`, its run() is called.
    template <class Command>
    std::pair<CLI::App&, Command&> add(const std::string& name, const std::string& description) {
        CLI::App* command = app_.add_subcommand(name, description);
        const auto what = std::make_shared<Command>();
        command->callback([this, what] { status_ = what->run(); });
        return {*command, *what};
    }

    /// Returns the exit code of the command that ran.
    int status() const noexcept { return status_; }

private:
    CLI::App& app_;
    int status_ = 0;
};

/// Add commands that make plans or use plans.
void add_plan_commands(command_list& commands);
/// Add commands about machines, jobs and this build.
void add_machine_commands(command_list& commands);

// Options of several commands.
void add_machine_options(CLI::App& command, machine_options& o);
/// @param when text of the help after "what a rank is"
void add_ranks_option(CLI::App& command, std::string& ranks, const std::string& when);
void add_plan_option(CLI::App& command, std::filesystem::path& file);
void add_call_options(CLI::App& command, call_options& o);

}  // namespace terrace::detail
