#pragma once

#include <string>

#include <CLI/App.hpp>

namespace terrace {

/// A command's options and texts as a manual page (roff), its subcommands in sections of their own.
std::string man_page(const CLI::App& app);

/// A script for bash that completes subcommands, options and file names.
std::string bash_completion(const CLI::App& app);

/// Adds the hidden option `--generate man|bash`, by which the build makes both: like --version it prints and ends.
void add_generate_option(CLI::App& app);

}  // namespace terrace
