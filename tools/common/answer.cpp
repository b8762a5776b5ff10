#include "tools/common/answer.hpp"

#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/edit_distance.hpp"

namespace terrace::detail {

namespace {

std::vector<std::string> names_of_commands(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    return names;
}

std::vector<std::string> names_of_options(const CLI::App& app) {
    std::vector<std::string> names = names_of_commands(app);  // commands may look like options
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return names;
}

// Returns an error about the first word that is no command or option; empty if there is none.
std::string unknown_word(const CLI::App& app) {
    for (const std::string& word : app.remaining()) {
        const std::string name = word.substr(0, word.find('='));
        if (name.starts_with('-'))
            return fmt::format("there is no option {}{}", name, did_you_mean(name, names_of_options(app)));
        if (const auto names = names_of_commands(app); !names.empty())
            return fmt::format("there is no command \"{}\"{}", name, did_you_mean(name, names));
    }
    return {};
}

}  // namespace

std::optional<answer> answer_to(CLI::App& app, int argc, const char* const* argv) {
    try {
        app.parse(argc, argv);
        return {};
    } catch (const CLI::ParseError& e) {
        std::ostringstream out, err;
        if (app.exit(e, out, err) == 0) return answer{out.str(), 0};
        // CLI11 first reports what is missing, though the cause may be a mistyped word before.
        std::string name = app.get_name(), what = unknown_word(app);
        for (const CLI::App* command : app.get_subcommands()) {
            if (!what.empty()) break;
            name += " " + command->get_name();
            what = unknown_word(*command);
        }
        return answer{fmt::format("{}: {}\nTry: {} --help\n", name, what.empty() ? e.what() : what, name), 2};
    }
}

}  // namespace terrace::detail
