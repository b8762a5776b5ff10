#pragma once

#include "tools/common/machine.hpp"

namespace terrace::detail {

/// `terrace topo MACHINE [--json | --yaml | --svg | --dot]`: prints a machine.
struct topo_command {
    machine_options machine;
    bool json = false;
    bool yaml = false;
    bool svg = false;
    bool dot = false;

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
