#pragma once

#include <CLI/CLI.hpp>

namespace terrace {

/// `terrace export PLAN --rankfile|--hostfile|--simgrid|--json [-o FILE]`.
void add_export_command(CLI::App& app);

}  // namespace terrace
