#pragma once

#include <string>

#include "topology/hardware.hpp"

namespace terrace::detail {

/// Returns the machine of a one-line description in hwloc's notation, "package:2 core:4". @throws input_error
hardware synthetic_hardware(const std::string& description);

}  // namespace terrace::detail
