#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/error.hpp>

#include "base/collective.hpp"
#include "base/index.hpp"
#include "base/wire_type.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// The part of the vector that a stage leaves to each rank of its group (docs/explanation/ownership.md).
enum class mode {
    scatter,    ///< a shard: reduce-scatter on the way up, allgather on the way down; with a root also scatter before
                ///< the allgather, and gather after the reduce-scatter
    root,       ///< one rank with everything, the others with nothing: reduce up, broadcast down
    replicate,  ///< everything on every rank: allreduce up, nothing down
};
std::string_view to_string(mode m) noexcept;
std::optional<mode> parse_mode(std::string_view text) noexcept;
/// Returns true if a collective may have stages of a mode: collectives of blocks or with a root cannot replicate.
constexpr bool can(mode m, collective c) noexcept {
    return m != mode::replicate || (!row_of(c).blocks && !row_of(c).has_root());
}

/// The software that runs a stage. A stage with an algorithm runs as point-to-point messages of that algorithm, sent by
/// the provider. A stage without an algorithm runs as the provider's own collective.
enum class provider {
    messages,       ///< the transport's messages: MPI between host buffers, NCCL between device buffers
    shared_memory,  ///< memory that all ranks of a node can access
    nccl,
    mpi,  ///< MPI; its messages of device buffers go directly from the device or through host memory
};
std::string_view to_string(provider p) noexcept;
std::optional<provider> parse_provider(std::string_view text) noexcept;
/// Returns "messages, shared_memory, nccl, mpi".
std::string provider_names();
/// Returns true for shared_memory and nccl, which are equivalent: whichever the plan names, shared memory runs the
/// stage of host buffers, and NCCL the stage of device buffers.
constexpr bool follows_buffers(provider p) noexcept { return p == provider::shared_memory || p == provider::nccl; }

/// A place in a plan file; zeros in a plan that was made in memory. All places compare equal.
struct source_location {
    int line = 0, column = 0;
    friend constexpr bool operator==(source_location, source_location) noexcept { return true; }
};

/// One stage of a collective: over one level, several merged levels, or part of one.
struct stage {
    std::vector<int> levels;  ///< consecutive levels of the hierarchy, ascending
    int group = 0;            ///< ranks of each group; 0 if groups differ in size (uneven domains)
    mode how = mode::scatter;
    std::string algorithm{};  ///< a name in the registry; empty: the provider's own collective
    detail::provider provider = detail::provider::messages;
    /// The relative part of the data that each member of a group owns, by position in every group, or by child if
    /// domains differ; empty: equal parts. Only in mode scatter, in an allreduce. May be 0 for some.
    std::vector<int> shares{};
    /// The part of the vector on the route that begins with this stage, relative to the other stages' route shares.
    /// Only for dimensions of a torus. 0 in all stages: the whole vector passes the stages in the order written.
    int route_share = 0;
    /// The type in which reductions of floats cross the stage's links. Other than exact only in mode scatter, with an
    /// algorithm that sends straight to the owner (fault_of), in groups of one size.
    wire_type wire = wire_type::exact;
    source_location source{};

    /// Returns true if the stage sends messages itself, false if its provider runs it as one collective.
    bool sends() const noexcept { return !algorithm.empty(); }
    friend bool operator==(const stage&, const stage&) = default;
};

/// Returns true if every stage sends messages itself.
inline bool all_send(std::span<const stage> stages) noexcept { return std::ranges::all_of(stages, &stage::sends); }

/// The stages that run calls up to a size, with lanes and chunk.
struct rule {
    static constexpr std::int64_t no_bound = std::numeric_limits<std::int64_t>::max();

    std::int64_t up_to = no_bound;  ///< largest size of a call [bytes], inclusive
    int lanes = 1;                  ///< chunks in flight at once, >= 1
    std::int64_t chunk = 0;         ///< size of a chunk [bytes]; 0: the whole vector is one chunk
    std::int64_t at = 0;            ///< size for which the times below hold [bytes]; up_to if that is finite
    double predicted = 0;           ///< time of the cost model at that size [s]
    double simulated = 0;           ///< time of a simulation at that size, if it decided the choice [s]; else 0
    double limit = 0;               ///< lower bound of the time at that size [s]
    std::vector<stage> stages;      ///< innermost first

    friend bool operator==(const rule&, const rule&) = default;
};

/// The contents of a plan file. Never holds expanded instructions.
struct plan_data {
    std::string file;      ///< source file; empty if the plan was made in memory
    std::string name;      ///< name of the machine
    std::string made_by;   ///< version of the planner
    std::string verified;  ///< proof that the planner made, in words; may be empty
    hierarchy machine;
    std::map<collective, std::vector<rule>> rules;  ///< by ascending up_to; the last rule has no_bound
    std::string text;                               ///< the plan as a file, normalised
    std::string id;                                 ///< fingerprint of `text`

    /// Returns the rule for a call of this size. @throws plan_error if the plan has no rules for the collective
    const rule& choose(collective c, std::int64_t bytes) const;
};

/// A stage of a rule is wrong; stages are numbered from 0.
class stage_error : public plan_error {
public:
    stage_error(int number, const std::string& message) : plan_error(message), number_(number) {}
    int number() const noexcept { return number_; }

private:
    int number_;
};

/// Returns the hierarchy of groups that stages make of a machine: one level per stage.
/// @throws stage_error if a stage does not fit the machine (levels left out, out of order or repeated, a wrong group)
/// or itself (an algorithm with a provider that has no messages), plan_error if a stage is missing
tree stage_tree(const hierarchy& machine, std::span<const stage> stages);

/// Returns true if each domain has shares of its own in the stage of this number. @param shape as of stage_tree
inline bool has_shares_by_domain(const stage& s, const tree& shape, int number) noexcept {
    return shape.domains(number) > 1 && s.shares.size() == at(shape.members(number));
}
/// Returns the shares of the children of a domain in a stage (stage::shares).
inline std::span<const int> shares_of(const stage& s, const tree& shape, int number, int domain) noexcept {
    if (!has_shares_by_domain(s, shape, number)) return s.shares;
    return std::span(s.shares).subspan(at(shape.first_child(number, domain)), at(shape.children(number, domain)));
}

/// Returns an upper bound of the error in a sum due to the wire types of stages. Each of them rounds the parts that are
/// added up, and the sum. The bound is relative to the sum over ranks of the largest magnitude that each passes in.
double rounding_error(std::span<const stage> stages) noexcept;

/// Returns "scatter ring", "root shared_memory", "scatter ring over mpi shares 1:1:0", "scatter ring route_share 3".
std::string describe(const stage& s);

/// Returns "node:4 scatter shared_memory > core:2 scatter ring"; merged levels as "node+core:8".
std::string describe(const hierarchy& machine, std::span<const stage> stages);

}  // namespace terrace::detail
