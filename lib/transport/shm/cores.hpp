#pragma once

#include <cstddef>
#include <functional>

namespace terrace {

class transport;

/// The ranks on one machine, be they in several containers, and the cores that they may run on together.
struct machine_use {
    int ranks = 0, cores = 0;

    bool crowded() const noexcept { return ranks > cores; }
};

/// transport::gather_all
using gathering_all = std::function<void(const void* mine, void* all, std::size_t bytes)>;

/// Of a transport, which it refers to.
gathering_all gathering_over(transport& net);

/// Of this rank's machine. Collective over `size` ranks.
machine_use use_of_machine(int size, const gathering_all& gather_all);

/// The cores that all ranks share, where they are on one machine and outnumber its cores; else 0. Collective.
int shared_cores(int size, const gathering_all& gather_all);

}  // namespace terrace
