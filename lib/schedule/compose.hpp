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

/// All groups of one stage. Each consists of the owners, one per sibling domain, of one interval of the vector. Groups
/// with no ranks in common run side by side.
struct composed_stage {
    mode how = mode::scatter;
    const algorithm* by = nullptr;
    int steps_up = 0, steps_down = 0;  ///< steps of the largest group, up and down
    int steps_at_root = 0;             ///< steps of its scatter and gather; 0 in mode replicate
    int largest = 0;                   ///< members of the largest group; 0: there are no groups
    bool meets_root = false;           ///< the call's root is in a domain with several children
    std::vector<group> groups;         ///< in the same order on all ranks
    /// The same groups with blocks as shards, for blocks in mode root: a member's shard is its child domain's blocks.
    std::vector<group> forwarding = {};
    int first_rank = 0;  ///< rank of of_rank[0]
    std::vector<std::vector<int>> of_rank;
    std::vector<int> domains = {};  ///< by rank: its child domain; for a reproducible reduction
    wire_type wire = wire_type::exact;
    int number = 0;  ///< index in the plan's stages
    int route = 0;   ///< route of the stage, from 1; 0: all routes

    /// Returns the groups that a rank is a member of, ascending.
    const std::vector<int>& groups_of(int rank) const { return of_rank[static_cast<std::size_t>(rank - first_rank)]; }
};

/// The groups of ranks for each part of the vector, by stage: a rule's stages for one count. The same on all ranks.
struct composition {
    int ranks = 1;
    int root = -1;  ///< root of the call; -1: none
    std::int64_t count = 0;
    std::vector<composed_stage> stages;
    std::vector<owned> owners;  ///< after the last stage, ascending; those of all ranks cover the vector
    /// The ranks in the order of each route, if parts of the vector pass the stages in different orders; else empty.
    /// Neighbours in a route's first stage are consecutive. Routes have disjoint parts of the vector.
    std::vector<std::vector<int>> routes;
    std::vector<int> tree = {};  ///< as in collective_call
};

/// Composes stages over a machine by ownership and common refinement:
/// * After a domain's stage each element has an owner in the domain. The vector is cut wherever an owner changes in any
///   sibling, and each interval's owners, one per sibling, form a group of the next stage. Shards are cut at multiples
///   of `quantum` elements.
/// * In the domain with the `root`, data move to or from the sibling with the root: in mode root its owners get
///   everything, in mode scatter they scatter to, or gather from, the other siblings' owners. Elsewhere (and for root
///   -1), in mode root, successive intervals have their roots in successive siblings.
/// * On a torus with route shares (stage::route_share), each part that a rank owns after the stages inside nodes is cut
///   into one part per route, and each is composed by itself with the dimensions in the order of the route.
/// @throws stage_error if a stage's algorithm is unknown, does not support its mode or is a provider's collective on a
/// route, or if mode replicate is below siblings of unequal size
composition compose(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
                    int root = -1, std::span<const int> tree = {});

/// Returns one rank's part: the same stages and steps, the groups with the rank, and the parts that it owns. The cost
/// is far lower: only that of the rank's groups, and of one domain of each kind.
composition compose_for(int rank, const hierarchy& machine, std::span<const stage> stages, std::int64_t count,
                        std::int64_t quantum, int root = -1, std::span<const int> tree = {});

/// Composes lists of stages one after another. Stages need no algorithms. The result has the groups of a view's ranks,
/// without routes and steps, and owners only if the view is for all ranks.
class group_composer {
public:
    explicit group_composer(std::int64_t count) { all_.count = count; }

    /// @param known number of leading stages that are the same as in the call before
    void compose(const route_view& seen, std::span<const stage> stages, std::size_t known = 0);
    const composition& groups() const& noexcept { return all_; }
    composition groups() && noexcept { return std::move(all_); }

private:
    composition all_;
    std::vector<ownerships> after_;  // ownership, by number of stages passed
};

/// The data movement of a group in one direction of a stage.
struct group_move {
    algorithm::generator emit = nullptr;  ///< null: moves nothing
    group who;                            ///< the members that take part, with their shards
    bool root_adds = false;               ///< the root adds received data to its own
};

/// Returns the data movement of a group in a stage that is not fused with its other direction.
/// @param by runs the stage   @param in_tree the call is a reproducible reduction
group_move move_of(const composed_stage& stage, const algorithm& by, collective what, const group& g, bool down,
                   bool in_tree = false);

/// Returns the node of each of these ranks, numbered over the machine.
std::vector<int> nodes_of(const hierarchy& machine, std::span<const int> ranks);

/// Checks that all rules of a plan can be composed. @throws input_error at the stage's place in the plan's file,
/// plan_error if the plan was made in memory
void check_runnable(const plan_data& r);

/// Returns true if the rank takes part in a stage that its transport runs by itself.
bool runs_stages(const composition& c, int rank, const capabilities& can);

/// Returns the program of one rank for an allreduce, or for a broadcast or reduce with the root of `c` (stages in modes
/// scatter and root). `c` must be composed for the rank. Collectives of providers are not lowered yet.
/// @param can stages that the transport runs by itself: up and down of an outermost stage are then one allreduce
/// @param home of the vector: recv, or scratch if peers access it there
schedule generate(const composition& c, collective what, int rank, const capabilities& can = {},
                  buffer home = buffer::recv);

/// Returns the programs of all ranks.
std::vector<schedule> generate_all(const composition& c, collective what);

}  // namespace terrace::detail
