#pragma once

#include <functional>

namespace terrace {

/// The ranks on one machine, be they in several containers, and the cores that they may run on together.
struct machine_use {
    int ranks = 0, cores = 0;

    bool crowded() const noexcept { return ranks > cores; }
};

/// Of this rank's machine. Collective. @param gather_all transport::gather_all
machine_use use_of_machine(int size,
                           const std::function<void(const void* mine, void* all, std::size_t bytes)>& gather_all);

}  // namespace terrace
