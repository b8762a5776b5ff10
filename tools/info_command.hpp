#pragma once

#include <CLI/App.hpp>

namespace terrace {

/// Adds `terrace info [--json]`: what this Terrace is, what it was built with, and what the environment tells it.
/// `status` becomes 1 if the environment has something wrong.
void add_info_command(CLI::App& app, int& status);

}  // namespace terrace
