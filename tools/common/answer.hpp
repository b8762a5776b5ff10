#pragma once

#include <optional>
#include <string>

// CLI11 takes seconds to compile, so only files that parse include it.
namespace CLI {
class App;
}

namespace terrace::detail {

/// The output for a command line that runs no command: an error, or the answer to an option such as --help.
struct answer {
    std::string text;
    int exit_code;
};

/// Parses a command line. Returns nothing if it is valid; an error about an unknown word names the nearest known one.
/// @throws the errors of the commands of `app`
std::optional<answer> answer_to(CLI::App& app, int argc, const char* const* argv);

}  // namespace terrace::detail
