#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/discover/nearness.hpp"
#include "bench/discover/nics.hpp"
#include "bench/discover/probes.hpp"
#include "bench/discover/switches.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail::bench {

struct discover_options {
    std::vector<std::string> hosts = {};  ///< host names from the operating system, by rank; empty: unknown
    bool trust_hosts = false;             ///< uses hosts as nodes, without measurements
    std::uint64_t seed = 1;               ///< determines which pairs are measured
    permission may_ask = [](const std::string&, int) { return true; };
};

/// A level that joins ranks inside nodes, or joins nodes.
struct found_level {
    grouping groups;            ///< group of each rank
    std::vector<double> rates;  ///< rate of the link into this level, by group of the previous level (or rank) [B/s]
    double latency = 0;         ///< half a round trip of a short message [s]
    double overhead = 0;        ///< processor time of a short message at each end [s]
    double confidence = 1;      ///< confidence in the groups, 0 to 1
    bool in_nodes = false;

    bool sure() const { return confidence >= 0.7; }
};

/// A machine as found by discover().
struct discovery {
    std::vector<found_level> levels;  ///< innermost first; the last one has one group
    std::vector<std::vector<int>> nodes;
    found_nics nics;
    std::vector<std::string> notes;  ///< remarks for the user, one sentence each
    int questions = 0, unstable = 0;
    bool complete = true;  ///< false: time ran out before all probes, and `levels` is incomplete

    /// Returns the number of levels before the first one that is not sure.
    int sure_levels() const;
    bool sure() const { return complete && sure_levels() == static_cast<int>(levels.size()); }
    /// Returns true if no groups of nodes were found.
    bool flat() const;
};

/// Measures and infers. The number of probes grows as P * max(log P, nodes / 2) with the number of ranks P.
discovery discover(probes& network, const discover_options& o);

/// A discovery as a hierarchy, with the rank at each place of it.
struct discovered_machine {
    hierarchy machine;
    std::vector<int> ranks;
};
discovered_machine machine_of(const discovery& d, const std::vector<std::string>& hosts);

/// Returns a text for people: levels with rates and confidence, then the notes. Ends with a newline.
std::string discovery_text(const discovery& d, const hierarchy& machine);

}  // namespace terrace::detail::bench
