#pragma once

#include <span>
#include <vector>

#include "planner/samples.hpp"
#include "planner/stage_time.hpp"
#include "schedule/group_messages.hpp"

namespace terrace::detail {

/// The data movement of a group in one direction of a stage.
struct moving_group {
    group who;
    group_moves how;
    double part = 0;            ///< of the vector that the group divides; parts of messages are relative to it
    bool around = false;        ///< every part passes from member to member around the group
    bool side_by_side = false;  ///< as `around`, on several rings
    /// A member that is a sample.
    struct member {
        int position, sample;
        double ranks_like;  ///< number of ranks that the sample represents in its child of the domain
    };
    std::vector<member> sampled = {};   ///< ascending
    member representative = {0, 0, 1};  ///< sample that represents members that are no samples; may move no data itself
    double like = 0;                    ///< number of groups of the domain that it represents, itself included
};

/// Groups of one domain, which run side by side. They do not wait for groups of other domains.
using moving_domain = std::vector<moving_group>;

/// Scratch memory for sums by link. All values are 0 between two phases.
struct link_sums {
    std::vector<double> now, all;  ///< vectors, in a step and in the whole phase
    std::vector<double> headers;   ///< in a step [B]

    explicit link_sums(const link_rows& rows)
        : now(static_cast<std::size_t>(rows.links())), all(now.size()), headers(now.size()) {}
};

/// One direction of one stage and its circumstances.
struct stage_phase {
    const hierarchy& machine;
    const link_rows& rows;
    const samples& ranks;
    const stage& what;  ///< its levels and mode
    detail::provider by;
    wire_type wire = wire_type::exact;  ///< of data that crosses links
    bool down = false;
    bool one_by_one = false;   ///< ranks take part one after the other, on the way to or from a root
    bool all_groups = false;   ///< the groups are all groups, not only those of samples
    bool from_caller = false;  ///< stages in shared memory first copy the vector to memory that peers can read
    bool in_scratch = false;   ///< the vector consists of blocks, which ranks copy to scratch memory and back
};

/// Counts the load of a phase from the messages of its groups, each on every link that it uses and at the processors of
/// both ends. Start-ups and wire time are those of the domain with the most.
phase_load load_of(const stage_phase& phase, std::span<const moving_domain> domains, link_sums& sums);

}  // namespace terrace::detail
