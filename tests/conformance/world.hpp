#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

#include "support/calls.hpp"

namespace terrace::detail::test {

/// Outcomes of the calls of one communicator, by rank and call.
using report = std::vector<std::vector<outcome>>;
using rank_main = std::function<std::vector<outcome>(communicator&)>;

/// A transport with a way to run ranks on it. The suite is the same for all worlds.
struct world {
    std::string name;
    std::vector<int> sizes;                                    ///< numbers of ranks to test
    std::function<report(const plan&, const rank_main&)> run;  ///< for plans whose number of ranks is in `sizes`
    bool on_host = true;        ///< host buffers: premul_sum may have factors; alltoallv and the like work
    bool many_threads = false;  ///< different threads of a rank may use its communicators at the same time
};

/// Returns the transports that this program tests: defined in loopback_world.cpp, mpi_world.cpp and the like.
std::vector<world> worlds();
/// Returns the worlds with host buffers.
inline std::vector<world> host_worlds() {
    std::vector<world> all = worlds();
    std::erase_if(all, [](const world& w) { return !w.on_host; });
    return all;
}

inline std::ostream& operator<<(std::ostream& out, const world& w) { return out << w.name; }

}  // namespace terrace::detail::test
