#pragma once

#include <CLI/CLI.hpp>

namespace terrace {

/// `terrace verify`. Running it sets `status` to the exit code.
void add_verify_command(CLI::App& app, int& status);

}  // namespace terrace
