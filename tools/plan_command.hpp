#pragma once

#include <CLI/CLI.hpp>

namespace terrace {

/// `terrace plan`. Running it sets `status` to the exit code.
void add_plan_command(CLI::App& app, int& status);

}  // namespace terrace
