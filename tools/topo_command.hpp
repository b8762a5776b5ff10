#pragma once

#include <CLI/App.hpp>

namespace terrace {

/// Adds `terrace topo MACHINE [--json | --yaml]` with the options of add_machine_options. Its callback prints the
/// machine to stdout. @throws like load_machine
void add_topo_command(CLI::App& app);

}  // namespace terrace
