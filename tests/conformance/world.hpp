#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

#include "support/calls.hpp"

namespace terrace::detail::test {

/// What the ranks of one communicator saw, by rank and call.
using report = std::vector<std::vector<outcome>>;
using rank_main = std::function<std::vector<outcome>(communicator&)>;

/// Something that runs communicators: the suite is the same for all.
struct world {
    std::string name;
    std::vector<int> sizes;                                    ///< numbers of ranks it can run
    std::function<report(const plan&, const rank_main&)> run;  ///< the plan's ranks are one of `sizes`
    bool on_host = true;  ///< buffers are the host's: premul_sum may have factors, and blocks lengths that few know
    bool many_threads = false;  ///< communicators of one rank may be of different threads, which call at once
};

/// What this program tests. One line of loopback_world.cpp or mpi_world.cpp per transport.
std::vector<world> worlds();
/// Those whose buffers are the host's.
inline std::vector<world> host_worlds() {
    std::vector<world> all = worlds();
    std::erase_if(all, [](const world& w) { return !w.on_host; });
    return all;
}

inline std::ostream& operator<<(std::ostream& out, const world& w) { return out << w.name; }

}  // namespace terrace::detail::test
