#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine/hierarchy_yaml.hpp"
#include "planner/planner.hpp"
#include "support/dice.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

// Machines that tests of the planner share.

inline constexpr std::int64_t kib = 1 << 10, mib = 1 << 20;

/// Returns a machine of up to three levels: nodes with shared memory, racks at 1 Gbit/s, a core at 500 Mbit/s.
hierarchy machine(tree shape);

hierarchy two_nodes();  ///< two nodes of 4 ranks
hierarchy two_racks();  ///< two racks of two nodes of 3 ranks
hierarchy uneven();     ///< two racks of two and three nodes, of 4, 2, 3, 3 and 1 ranks

/// Returns ranks on one network: 1 GB/s, alpha 10 us, o 2 us.
hierarchy network(int ranks);

/// Returns levels of 1, 1/2, 1/3 GB/s and so on, alpha 10, 20, 30 us, and processors that cost nothing but `overhead`.
hierarchy free_network(tree shape, double overhead = 0);

/// Returns `levels` equal levels of size 2.
hierarchy pairs_of_pairs(int levels);

/// Returns three nodes of 4, 4 and 2 ranks, the last one with a link of another rate [B/s].
hierarchy unequal_links(double slow);

/// Returns three racks of two nodes of 2 ranks. Links of racks are no faster than links of nodes, so lanes in the same
/// step queue for them.
hierarchy three_racks();

/// Returns nodes of 8 GPUs over NVLink, and a network with these rates for NCCL and MPI.
hierarchy gpu_nodes(int nodes, std::optional<device_rates> nccl, std::optional<device_rates> mpi);

/// Returns the machine with NICs between its nodes. NICs without a rate share the level's rate.
/// @param nics as in a cluster file: "{count: 4}"
hierarchy with_nics(hierarchy h, const std::string& nics);

/// Returns a rule that runs these stages for every size.
rule rule_of(std::vector<stage> stages, int lanes = 1, std::int64_t chunk = 0);

/// Returns the rule that runs a candidate for calls of about this number of bytes.
inline rule tuned(const hierarchy& machine, const candidate& c, std::int64_t bytes,
                  collective what = collective::allreduce) {
    return detail::tuned(machine, c, std::span(&bytes, 1), what).front();
}

/// Returns nodes of 1 to 4 ranks, alone or in racks of 1 to 3, whose links are half to twice as fast as a node's; in
/// every third machine one link at the top is slower than the others.
hierarchy random_racks(dice& d);

/// Returns machines of one to three levels, even and uneven, some with levels of size 1.
std::vector<hierarchy> machines();

}  // namespace terrace::detail::test
