#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/error.hpp>

#include "base/hierarchy.hpp"

namespace terrace {

/// Spelled as in the API, in YAML and in JSON.
enum class collective { allreduce, reduce_scatter, allgather, broadcast, reduce };
std::string_view to_string(collective c) noexcept;
std::optional<collective> parse_collective(std::string_view text) noexcept;
inline constexpr std::array all_collectives{collective::allreduce, collective::reduce_scatter, collective::allgather,
                                            collective::broadcast, collective::reduce};

/// Which phases of its stages a collective runs: up from the innermost to the outermost, then down again.
constexpr bool goes_up(collective c) noexcept { return c != collective::allgather && c != collective::broadcast; }
constexpr bool goes_down(collective c) noexcept { return c != collective::reduce_scatter && c != collective::reduce; }
/// Every rank has a block of its own, or one rank is the root; allreduce has neither.
constexpr bool has_blocks(collective c) noexcept {
    return c == collective::reduce_scatter || c == collective::allgather;
}
constexpr bool has_root(collective c) noexcept { return c == collective::broadcast || c == collective::reduce; }

/// What a stage leaves each rank of its group with (docs/architecture.md, section 2).
enum class mode {
    scatter,    ///< a shard: reduce-scatter on the way up, allgather on the way down
    root,       ///< one rank with everything, the others with nothing: reduce up, broadcast down
    replicate,  ///< everything on every rank: allreduce up, nothing down
};
std::string_view to_string(mode m) noexcept;
std::optional<mode> parse_mode(std::string_view text) noexcept;
/// Whether stages of the mode do a part of the collective: blocks only scatter, a root only takes or gives all.
constexpr bool can(mode m, collective c) noexcept {
    return has_blocks(c) ? m == mode::scatter : has_root(c) ? m == mode::root : true;
}

/// What carries a stage's data between buffers on devices. Buffers of the host take no notice of it.
enum class carrier {
    nccl,
    mpi,  ///< messages, from the device or through memory of the host
};
std::string_view to_string(carrier c) noexcept;
std::optional<carrier> parse_carrier(std::string_view text) noexcept;

/// Where something stands in a plan file; zeros if it was made in memory. Takes no part in comparisons.
struct origin {
    int line = 0, column = 0;
    friend constexpr bool operator==(origin, origin) noexcept { return true; }
};

/// One collective at one place of the hierarchy: one level, several merged ones, or part of one.
struct stage {
    std::vector<int> levels;  ///< consecutive levels of the hierarchy, ascending
    int group = 0;            ///< ranks of each group; 0 where groups differ in size (uneven domains)
    mode how = mode::scatter;
    std::string algorithm;  ///< a name in the registry
    /// How much of a segment each sibling gets, in mode scatter, where that is not the same; only of an allreduce's
    /// outermost stage. May be 0 for some.
    std::vector<int> weights{};
    carrier over = carrier::nccl;
    /// Of a dimension of a torus: how much of the vector goes through this stage first, then through those behind it
    /// and at last through those of the dimensions before it. 0 in all: everything goes through them as they stand.
    int first = 0;
    origin written{};

    friend bool operator==(const stage&, const stage&) = default;
};

/// What to run for messages up to a size.
struct rule {
    static constexpr std::int64_t no_bound = std::numeric_limits<std::int64_t>::max();

    std::int64_t up_to = no_bound;  ///< [bytes], inclusive
    int lanes = 1;                  ///< chunks in flight, >= 1
    std::int64_t chunk = 0;         ///< [bytes] of the vector that pass through the stages at once; 0: all of it
    std::int64_t at = 0;            ///< the size the predictions are for [bytes]; up_to where that is finite
    double predicted = 0;           ///< the cost model's time at `at` [s]
    double simulated = 0;           ///< by a simulation, at `at`, where that decided [s]; else 0
    double limit = 0;               ///< the physical limit at `at` [s]
    std::vector<stage> stages;      ///< innermost first

    friend bool operator==(const rule&, const rule&) = default;
};

/// The contents of a plan file. Never holds expanded instructions.
struct recipe {
    std::string file;      ///< that it was read from; empty if it was made in memory
    std::string name;      ///< of the machine
    std::string made_by;   ///< version of the planner
    std::string verified;  ///< which proof the planner made, in words; may be empty
    hierarchy machine;
    std::map<collective, std::vector<rule>> rules;  ///< ascending up_to, the last one no_bound
    std::string text;                               ///< the normalised file
    std::string id;                                 ///< fingerprint of `text`

    /// The rule for a message. @throws plan_error if the plan has none for the collective
    const rule& choose(collective c, std::int64_t bytes) const;
};

/// One of a rule's stages, counted from 0, does not do.
class stage_error : public plan_error {
public:
    stage_error(int number, const std::string& message) : plan_error(message), number_(number) {}
    int number() const noexcept { return number_; }

private:
    int number_;
};

/// The hierarchy that stages make of a machine: one level per stage. @throws stage_error where a stage does not fit the
/// machine (levels left out, out of order or repeated, or a group that does not match), plan_error if one is missing
tree stage_tree(const hierarchy& machine, std::span<const stage> stages);

/// "node:4 scatter direct > core:2 scatter ring"; merged levels as "node+core:8".
std::string describe(const hierarchy& machine, std::span<const stage> stages);

}  // namespace terrace
