#pragma once

#include <span>
#include <vector>

#include "planner/samples.hpp"
#include "planner/stage_time.hpp"
#include "schedule/group_messages.hpp"

namespace terrace::detail {

/// A group as it moves data in one direction of a stage.
struct moving_group {
    group who;
    group_moves how;
    double part = 0;            ///< of the vector, that parts of messages are parts of
    bool around = false;        ///< every part goes from member to member around the group
    bool side_by_side = false;  ///< on several rings
    /// A member that is a sample.
    struct member {
        int position, sample;
        double ranks_like;  ///< ranks of the domain's child that it is in for which the sample stands
    };
    std::vector<member> sampled = {};  ///< ascending
    member speaker = {0, 0, 1};        ///< a sample of the group for members that are none; it need not move data
    double like = 0;                   ///< groups of the domain for which it stands, itself included
};

/// Groups that run side by side and do not wait for those of other domains.
using moving_domain = std::vector<moving_group>;

/// Memory in which what passes links is added up, by link: all 0 between two phases.
struct link_sums {
    std::vector<double> now, all;  ///< vectors, in a step and altogether
    std::vector<double> headers;   ///< in a step [B]

    explicit link_sums(const link_rows& rows)
        : now(static_cast<std::size_t>(rows.links())), all(now.size()), headers(now.size()) {}
};

/// One direction of one stage: what its groups move, and by what.
struct stage_phase {
    const hierarchy& machine;
    const link_rows& rows;
    const samples& ranks;
    const stage& what;  ///< its levels and mode
    detail::provider by;
    wire_type wire = wire_type::exact;  ///< of what crosses links
    bool down = false;
    bool one_by_one = false;   ///< ranks take part one after the other: on the way to or from a root
    bool all_groups = false;   ///< the groups are all there are, and not those of samples alone
    bool from_caller = false;  ///< stages in shared memory copy the vector first to where peers reach it
    bool in_scratch = false;   ///< the vector consists of blocks, which ranks copy to scratch memory and back
};

/// Counts the load of a phase from the messages of its groups, each on every link that it passes and at the processors
/// of both ends. Of start-ups and of time on wires the domain counts that has the most.
phase_load load_of(const stage_phase& phase, std::span<const moving_domain> domains, link_sums& sums);

}  // namespace terrace::detail
