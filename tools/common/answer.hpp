#pragma once

#include <optional>
#include <string>

// CLI11 takes seconds to compile: whoever parses includes it.
namespace CLI {
class App;
}

namespace terrace::detail {

/// What there is to say to a command line that runs nothing: a mistake, or a question such as --help.
struct answer {
    std::string text;
    int exit_code;
};

/// Parses; nothing if there is nothing to say. What is no command or option is named with the nearest that is one.
/// @throws what the commands throw that `app` runs
std::optional<answer> answer_to(CLI::App& app, int argc, const char* const* argv);

}  // namespace terrace::detail
