#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/part_list.hpp"

namespace terrace::detail {

/// Gives each rank a NIC of the smallest part around it that has any. Ranks with the same choice take its NICs in turn.
/// @param ranks the part of each rank
void assign_nics(const part_list& parts, const std::vector<int>& ranks);

/// Link of a node into the network: all NICs that ranks use, or would use if none are placed.
struct uplink {
    fabric medium;
    double bandwidth;  ///< of all NICs together, per direction, at most the rates of their slots [B/s]
    bool assumed;      ///< true if the file lacks the rate of a port
    struct slot {
        int ports;
        double link;  ///< [B/s]; infinite if the file does not give it
    };
    std::vector<slot> slots = {};
    std::vector<double> nics = {};  ///< rates of the ports, in the order of the node's parts [B/s]
    std::vector<int> of_rank = {};  ///< by rank: the index of its port in `nics`; empty if ranks are not placed
    /// Returns the bandwidth if the ports had this speed [B/s].
    double with_ports(double speed) const noexcept {
        double all = 0;
        for (const slot& s : slots) all += std::min(s.ports * speed, s.link);
        return all;
    }
};
/// Returns the link of a node into the network; nothing if the node has no NIC.
std::optional<uplink> uplink_of(const part& machine);

/// One node as the ranks of a job on it see it, or as a file describes it.
struct job_node {
    hierarchy levels;  ///< the last one joins all ranks
    std::optional<uplink> up;
};

}  // namespace terrace::detail
