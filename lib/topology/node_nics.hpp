#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/part_list.hpp"

namespace terrace::detail {

/// Gives each rank a NIC of the smallest part around it that has any. Ranks with the same choice take turns.
/// @param ranks the part of each rank
void assign_nics(const part_list& parts, const std::vector<int>& ranks);

/// The link of a node into the network: all NICs that ranks use, or would use where none are placed. Nothing if it has
/// none.
struct uplink {
    fabric medium;
    double bandwidth;  ///< of all together, per direction, as far as their slots carry it [B/s]
    bool assumed;      ///< from the PCIe slots, as the file says nothing of the ports
    struct slot {
        int ports;
        double link;  ///< [B/s]; infinite where the file says nothing
    };
    std::vector<slot> slots = {};
    std::vector<double> nics = {};  ///< rates of the ports, in the order of the node's parts [B/s]
    std::vector<int> of_rank = {};  ///< by rank, which of them it uses; empty where ranks are not placed
    /// The bandwidth if the ports had this speed [B/s].
    double with_ports(double speed) const noexcept {
        double all = 0;
        for (const slot& s : slots) all += std::min(s.ports * speed, s.link);
        return all;
    }
};
std::optional<uplink> uplink_of(const part& machine);

/// One node as the ranks that a job has there see it, or as a file describes it.
struct job_node {
    hierarchy levels;  ///< the last one joins all ranks
    std::optional<uplink> up;
};

}  // namespace terrace::detail
