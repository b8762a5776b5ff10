#pragma once

#include <vector>

#include "machine/hierarchy_yaml.hpp"
#include "planner/layout.hpp"
#include "planner/pattern.hpp"
#include "planner/stage_time.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

/// One phase of a stage on a machine: who moves data between whom, and at what rates. Heights and places are those of
/// the stage's layout.
struct phase_setting {
    const hierarchy& machine;
    const sampler& samples;
    const layout& where;
    const algorithm& by;
    detail::provider provider;  ///< who carries the data
    bool down = false;
    root_part at_root = root_part::none;
    bool in_scratch = false;         ///< the vector consists of blocks, which ranks copy to scratch memory and back
    const std::vector<int>& blocks;  ///< parts of the vector that the positions own, in proportion; empty: equal parts
    bool exchanges = false;          ///< each position sends blocks of its own, and adds up nothing
    wire_type wire = wire_type::exact;  ///< of what crosses links
    bool roots_everywhere = false;      ///< each domain has a root, which at_root is about

    /// The sampled rank's place in the stage.
    const sample_place& place_of(std::size_t sample) const { return where.places[sample]; }
    /// The level whose links domains of a height have.
    int level_at(int height) const;

    /// Start-up and rate of this stage's data on a level's links: those of the network, or of NCCL or MPI between GPUs.
    device_rates rates_on(const level& l) const;
    /// How many times as long as at the rate in the cluster file this stage's data takes on a level's links.
    double slowness(const level& l) const;
    /// Rate of the link of the sample's domain of a height [B/s].
    double rate(std::size_t sample, int height) const;

    /// Rate of the NIC by which the sample's messages leave its node [B/s].
    double nic_rate(std::size_t sample) const;
    /// Slowness of what connects nodes.
    double network_slowness() const;
    /// Returns true if messages between domains of a height leave nodes.
    bool leaves_nodes(int height) const { return samples.rows().passes_nic(level_at(height)); }

    /// Returns true if domains of a height are on rings, as nodes of a torus are: their links to neighbours are used by
    /// stages over that dimension alone.
    bool on_ring(int height) const;
    /// The part of a domain's rate that one of its two links has, in one direction around the ring.
    double ring_share(int height) const;

    /// The innermost level at which two positions of a place's domain meet.
    int level_between(const sample_place& p, int a, int b) const;
    /// The outermost level of the stage that joins anything.
    int outermost_joining() const;

    /// Messages of a part of the vector that cross a level.
    message_load messages(double part, int level, double count) const;
    /// Time to copy what crosses a level, at one end: the transport copies through memory that ranks share [s/B].
    double copy_time(int level) const;
    /// Time that processors take for a message on its way: they add it up, and copy it at both ends [s/B].
    double handling_time(int level) const;

    /// The part of the stage's data that so many positions from one on own once it is scattered over `size` of them.
    double owned_by(int first, int positions, int size) const;
};

}  // namespace terrace::detail
