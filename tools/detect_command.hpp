#pragma once

#include <CLI/App.hpp>

namespace terrace {

/// Adds `terrace detect [-o FILE] [--node-file FILE] [--ranks UNIT]`, which describes the machine it runs on as a
/// cluster file. @throws error, input_error
void add_detect_command(CLI::App& app);

}  // namespace terrace
