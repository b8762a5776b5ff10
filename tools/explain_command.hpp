#pragma once

#include <CLI/CLI.hpp>

namespace terrace {

/// `terrace explain`. Running it sets `status` to the exit code.
void add_explain_command(CLI::App& app, int& status);

}  // namespace terrace
