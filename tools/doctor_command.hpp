#pragma once

#include <CLI/CLI.hpp>

namespace terrace {

/// `terrace doctor`: what would trip a run on this machine, each with its fix. `status` becomes 1 if anything would.
void add_doctor_command(CLI::App& app, int& status);

}  // namespace terrace
