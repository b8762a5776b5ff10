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
/// Returns true if a collective may have stages of a mode: those of blocks or with a root cannot replicate.
constexpr bool can(mode m, collective c) noexcept {
    return m != mode::replicate || (!row_of(c).blocks && !row_of(c).has_root());
}

/// Runs a stage. A stage that names an algorithm runs as point-to-point messages of that algorithm, which the
/// provider carries; a stage without an algorithm runs as the provider's own collective.
enum class provider {
    messages,       ///< the transport's messages: MPI between host buffers, NCCL between device buffers
    shared_memory,  ///< ranks of a node, in memory that all of them reach
    nccl,
    mpi,  ///< of device buffers: messages over MPI, straight from the device or through host memory
};
std::string_view to_string(provider p) noexcept;
std::optional<provider> parse_provider(std::string_view text) noexcept;
/// "messages, shared_memory, nccl, mpi".
std::string provider_names();
/// Returns true for shared_memory and nccl, which stand for one another: whichever of them the plan names, shared
/// memory runs the stage of host buffers, and NCCL the stage of device buffers.
constexpr bool follows_buffers(provider p) noexcept { return p == provider::shared_memory || p == provider::nccl; }

/// Place in a plan file; zeros in a plan that was made in memory. All are equal in comparisons.
struct source_location {
    int line = 0, column = 0;
    friend constexpr bool operator==(source_location, source_location) noexcept { return true; }
};

/// One step of a collective at one place of the hierarchy: one level, several merged ones, or part of one.
struct stage {
    std::vector<int> levels;  ///< consecutive levels of the hierarchy, ascending
    int group = 0;            ///< ranks of each group; 0 where groups differ in size (uneven domains)
    mode how = mode::scatter;
    std::string algorithm{};  ///< a name in the registry; empty: the provider's own collective
    detail::provider provider = detail::provider::messages;
    /// How much of a segment each sibling owns, by position in every group, or by child where domains differ; empty:
    /// all the same. Only in mode scatter, in an allreduce. May be 0 for some.
    std::vector<int> shares{};
    /// How much of the vector takes the route that begins with this stage, beside the other stages' route shares; of a
    /// dimension of a torus. 0 in all stages: the whole vector takes the stages in the order written.
    int route_share = 0;
    /// The format in which reductions of floats cross the stage's links. Other than exact only in mode scatter, by an
    /// algorithm that sends straight to the owner (fault_of), in groups of one size.
    wire_type wire = wire_type::exact;
    source_location source{};

    /// Returns true if the stage sends messages itself, false if its provider runs it as one collective.
    bool sends() const noexcept { return !algorithm.empty(); }
    friend bool operator==(const stage&, const stage&) = default;
};

/// Returns true if every stage sends messages itself.
inline bool all_send(std::span<const stage> stages) noexcept { return std::ranges::all_of(stages, &stage::sends); }

/// The stages that run for messages up to a size, and how.
struct rule {
    static constexpr std::int64_t no_bound = std::numeric_limits<std::int64_t>::max();

    std::int64_t up_to = no_bound;  ///< [bytes], inclusive
    int lanes = 1;                  ///< chunks in flight at once, >= 1
    std::int64_t chunk = 0;         ///< part of the vector that passes through the stages at once [bytes]; 0: all
    std::int64_t at = 0;            ///< message size of the predictions [bytes]; up_to where that is finite
    double predicted = 0;           ///< time of the cost model at that size [s]
    double simulated = 0;           ///< time of a simulation at that size, if it decided the choice [s]; else 0
    double limit = 0;               ///< physical limit at that size [s]
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
    std::map<collective, std::vector<rule>> rules;  ///< by ascending up_to, the last one no_bound
    std::string text;                               ///< normalised file
    std::string id;                                 ///< fingerprint of `text`

    /// Returns the rule for a message. @throws plan_error if the plan has no rules for the collective
    const rule& choose(collective c, std::int64_t bytes) const;
};

/// A stage of a rule, counted from 0, is wrong.
class stage_error : public plan_error {
public:
    stage_error(int number, const std::string& message) : plan_error(message), number_(number) {}
    int number() const noexcept { return number_; }

private:
    int number_;
};

/// Returns the hierarchy that stages make of a machine: one level per stage.
/// @throws stage_error if a stage does not fit the machine (levels left out, out of order or repeated, a wrong group)
/// or itself (an algorithm where the provider has no messages), plan_error if a stage is missing
tree stage_tree(const hierarchy& machine, std::span<const stage> stages);

/// Returns true if the shares of domains may differ in a stage of this number. @param shape as of stage_tree
inline bool has_shares_by_domain(const stage& s, const tree& shape, int number) noexcept {
    return shape.domains(number) > 1 && s.shares.size() == at(shape.members(number));
}
/// Returns what the children of a domain own in it (stage::shares).
inline std::span<const int> shares_of(const stage& s, const tree& shape, int number, int domain) noexcept {
    if (!has_shares_by_domain(s, shape, number)) return s.shares;
    return std::span(s.shares).subspan(at(shape.first_child(number, domain)), at(shape.children(number, domain)));
}

/// Returns a bound of what the wire types of stages change in a sum: each of them rounds the parts that are added up,
/// and the sum. Relative to the sum over ranks of the largest magnitudes that they pass in.
double rounding_error(std::span<const stage> stages) noexcept;

/// Returns "scatter ring", "root shared_memory", "scatter ring over mpi shares 1:1:0", "scatter ring route_share 3".
std::string describe(const stage& s);

/// Returns "node:4 scatter shared_memory > core:2 scatter ring"; merged levels as "node+core:8".
std::string describe(const hierarchy& machine, std::span<const stage> stages);

}  // namespace terrace::detail
