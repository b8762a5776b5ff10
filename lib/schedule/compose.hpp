#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/plan_data.hpp"
#include "schedule/lower.hpp"
#include "schedule/ownership.hpp"
#include "schedule/registry.hpp"
#include "schedule/route_view.hpp"

namespace terrace::detail {

/// All groups of one stage. Each consists of the owners, one per sibling domain, of one segment of the vector. Groups
/// with no ranks in common run side by side.
struct composed_stage {
    mode how = mode::scatter;
    const algorithm* by = nullptr;
    int steps_up = 0, steps_down = 0;  ///< of the largest group
    int steps_at_root = 0;             ///< of scatter and gather, in mode scatter
    int largest = 0;                   ///< members of that; 0 where nobody meets
    bool meets_root = false;           ///< the root of the call has others to meet
    std::vector<group> groups;         ///< in an order that all ranks agree on
    /// The same groups with the blocks that the root has for each member and what is behind it, for blocks in mode
    /// root.
    std::vector<group> forwarding = {};
    int first_rank = 0;  ///< of of_rank
    std::vector<std::vector<int>> of_rank;
    std::vector<int> domains = {};  ///< of a reproducible reduction, by rank: the child of the level that it is in
    wire_type wire = wire_type::exact;
    int number = 0;  ///< among the plan's stages
    int route = 0;   ///< which of the composition's it is on, from 1; 0: on all

    /// Returns the groups that a rank is a member of, ascending.
    const std::vector<int>& groups_of(int rank) const { return of_rank[static_cast<std::size_t>(rank - first_rank)]; }
};

/// The groups of ranks for each part of the vector, by stage: the stages of a plan rule, laid out for one count. The
/// same for all ranks.
struct composition {
    int ranks = 1;
    int root = -1;  ///< of the call; -1: it has none
    std::int64_t count = 0;
    std::vector<composed_stage> stages;
    std::vector<owned> owners;  ///< after the last stage, ascending; all ranks' cover the vector
    /// Where parts of the vector go through stages in different orders: of each order, the ranks as its first stage
    /// takes them together, then its next. No two routes have a part of the vector in common. Else empty.
    std::vector<std::vector<int>> routes;
    std::vector<int> tree = {};  ///< as in collective_call
};

/// Composes stages over a machine by ownership and common refinement: after a domain's stage each element has an owner
/// in it; the vector is cut wherever an owner changes in any sibling, and each segment's owners, one per sibling, form
/// a group of the next stage. Shards are cut at multiples of `quantum` elements. What a domain that has the
/// `root` does is done by or for the sibling that has it: in mode root its owners get everything, in mode scatter they
/// scatter to, or gather from, the other siblings' owners. Elsewhere (and for root -1) successive segments take
/// successive siblings in mode root.
/// @throws stage_error if a stage's algorithm is unknown or does not do its mode, or replicate stands below unequal
/// siblings. Where dimensions of a torus take turns at coming first (stage::route_share), what each rank owns after the
/// stages inside nodes is cut in so many parts, and each composed by itself over the machine with its dimensions in
/// that order.
composition compose(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
                    int root = -1, std::span<const int> tree = {});

/// Returns a rank's part: the same stages and steps, the groups that the rank is a member of, and the parts that
/// it owns. Costs far less: the time of the rank's own groups, and of one domain of each kind.
composition compose_for(int rank, const hierarchy& machine, std::span<const stage> stages, std::int64_t count,
                        std::int64_t quantum, int root = -1, std::span<const int> tree = {});

/// Composes stages that need no algorithms, one list after the other, for the ranks that a view is for: the groups that
/// these are members of, without routes and steps; owners only where it is for all ranks.
class group_composer {
public:
    explicit group_composer(std::int64_t count) { all_.count = count; }

    /// @param known how many of the first stages are as they were the time before
    void compose(const route_view& seen, std::span<const stage> stages, std::size_t known = 0);
    const composition& groups() const& noexcept { return all_; }
    composition groups() && noexcept { return std::move(all_); }

private:
    composition all_;
    std::vector<ownerships> after_;  // each stage
};

/// What a group does in one direction of a stage.
struct group_move {
    algorithm::generator emit = nullptr;  ///< null: nothing
    group who;                            ///< the group as it moves data: members, and what they own
    bool root_adds = false;               ///< what the root gets it adds to what it has
};

/// Returns what a group of a stage does in a call that is not fused with the other direction.
/// @param by who runs the stage   @param in_tree the call is a reproducible reduction
group_move move_of(const composed_stage& stage, const algorithm& by, collective what, const group& g, bool down,
                   bool in_tree = false);

/// Returns the node of each of some ranks, counted over the machine.
std::vector<int> nodes_of(const hierarchy& machine, std::span<const int> ranks);

/// Makes sure that all rules of a plan can be composed. @throws input_error at the stage's place in the file that the
/// plan_data was read from, plan_error if it was made in memory
void check_runnable(const plan_data& r);

/// Whether the rank takes part in a stage that its transport runs by itself.
bool runs_stages(const composition& c, int rank, const capabilities& can);

/// The program of one rank, which `c` is composed for, of an allreduce; of broadcast and reduce (stages in modes
/// scatter and root), from and to the root that `c` is composed for. Collectives of providers are not lowered yet.
/// @param can what the transport runs by itself: up and down of an outermost stage are then one allreduce
/// @param home of the vector: recv, or scratch where peers look for it there
schedule generate(const composition& c, collective what, int rank, const capabilities& can = {},
                  buffer home = buffer::recv);

/// Programs of all ranks.
std::vector<schedule> generate_all(const composition& c, collective what);

}  // namespace terrace::detail
