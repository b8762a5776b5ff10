#pragma once

#include "bench/measure/world.hpp"
#include "bench/training/settings.hpp"

namespace terrace::detail::bench {

/// terrace-bench --training. Returns the program's exit code.
int measure_training(const world& w, const training_settings& s);

}  // namespace terrace::detail::bench
