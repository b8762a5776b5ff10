#pragma once

#include <CLI/CLI.hpp>

namespace terrace {

/// `terrace simulate PLAN --bytes N [--trace FILE] [--svg FILE]`: a call of all ranks over the machine's links.
void add_simulate_command(CLI::App& app);

}  // namespace terrace
