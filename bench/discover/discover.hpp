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
    std::vector<std::string> hosts = {};  ///< by rank, as operating systems say; empty: not known
    bool trust_hosts = false;             ///< nodes are the hosts, without measuring
    std::uint64_t seed = 1;               ///< which pairs are measured
    permission may_ask = [](const std::string&, int) { return true; };
};

/// A level between ranks inside nodes, or between nodes.
struct found_level {
    grouping groups;            ///< of ranks
    std::vector<double> rates;  ///< by group of the level before (or by rank), of its link into this level [B/s]
    double latency = 0;         ///< half a round trip of a short message [s]
    double overhead = 0;        ///< of a short message at each end [s]
    double confidence = 1;      ///< of the groups
    bool in_nodes = false;

    bool sure() const { return confidence >= 0.7; }
};

/// What probes say of a machine.
struct discovery {
    std::vector<found_level> levels;  ///< innermost first; the last one has one group
    std::vector<std::vector<int>> nodes;
    found_nics nics;
    std::vector<std::string> notes;  ///< what a person should know, a sentence each
    int questions = 0, unstable = 0;
    bool complete = true;  ///< false: there was no time for all questions, and `levels` are not all

    /// How many levels are sure, up to the first one that is not.
    int sure_levels() const;
    bool sure() const { return complete && sure_levels() == static_cast<int>(levels.size()); }
    /// True where no group of nodes stands out.
    bool flat() const;
};

/// Asks and infers. Questions grow as the number of ranks times that of its logarithm or of half the nodes, if more.
discovery discover(probes& network, const discover_options& o);

/// The same as a machine, and by place in it the rank that has it.
struct discovered_machine {
    hierarchy machine;
    std::vector<int> ranks;
};
discovered_machine machine_of(const discovery& d, const std::vector<std::string>& hosts);

/// The levels with their rates and how sure they are, then notes: for people. Ends with a newline.
std::string discovery_text(const discovery& d, const hierarchy& machine);

}  // namespace terrace::detail::bench
