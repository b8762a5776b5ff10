#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/builder.hpp"

namespace terrace::detail {

/// The pairs of positions between which an algorithm moves data, except in collectives taken from direct
/// (algorithm::gather). Planners branch on it, not on names of algorithms; tests compare it with the generators'
/// messages.
enum class message_graph : std::uint8_t {
    any,              ///< none of the others
    one_neighbour,    ///< all messages of a stage move one position on, in one direction around the group
    both_neighbours,  ///< every position sends to both neighbours at once, which requires separate links
    tree,             ///< in a broadcast no position receives from two others: ceil(lg p) messages from root to last
    node_rings,       ///< several rings through each node; the group must have the nodes of its members
    all_at_once,      ///< each message goes straight from the data's owner to the receiver, and waits for no other
};

/// A way to run one stage over one group: an algorithm of Terrace, or a provider's own collective. A generator emits
/// the instructions of position `g.position()`. It calls next_step() before each exchange and uses the same number of
/// steps on every position. It is null for collectives that are not supported.
struct algorithm {
    using generator = void (*)(builder& out, const group& g);
    /// Exchanges data between all members. By position: `gives` is the source and `gets` the destination of the data.
    using exchanger = void (*)(builder& out, const group& g, std::span<const operand> gives,
                               std::span<const operand> gets);

    std::string_view name;
    std::string_view summary;
    generator reduce_scatter = nullptr;  ///< mode scatter, up: shard i reduced at position i
    generator allgather = nullptr;       ///< mode scatter, down: shard i from position i to all
    generator reduce = nullptr;          ///< mode root, up
    generator broadcast = nullptr;       ///< mode root, down
    generator allreduce = nullptr;       ///< mode replicate
    generator scatter = nullptr;  ///< mode scatter, up in a broadcast; mode root, of blocks, after the way up: shard i
                                  ///< from the root to position i
    generator gather = nullptr;  ///< mode scatter, down in a reduce; mode root, of blocks, before the way down: shard i
                                 ///< from position i to the root. If both are null, a table takes those of direct.
    exchanger exchange = nullptr;  ///< modes scatter and root, in collectives that exchange blocks; may be null
    /// The provider that runs the stage as its own collective; messages: this is an algorithm.
    detail::provider provider = detail::provider::messages;
    int (*rounds)(int size) = nullptr;  ///< exchanges that must wait for one another in one collective; null: all steps
    message_graph graph = message_graph::any;
    int cuts = 1;            ///< parts into which generators cut each shard, or the whole vector to or from a root;
                             ///< with message_graph::node_rings, that many for each ring
    bool passes_on = false;  ///< the whole vector passes position after position: efficient only in many chunks
    /// Every step goes to other ranks than the one before and waits for its sends, so chunks in flight delay one
    /// another most (docs/explanation/planning.md).
    bool hinders_lanes = false;

    /// Returns the start-ups of one collective over `size` positions: the exchanges that must wait for one another. For
    /// a row without `rounds`, this is the number of steps of its generator.
    int startups(int size) const;
    /// Returns true for an algorithm, false for a provider's own collective.
    bool sends() const noexcept { return provider == detail::provider::messages; }
    bool supports(mode m) const noexcept { return up(m) != nullptr; }
    generator up(mode m) const noexcept {
        return m == mode::scatter ? reduce_scatter : m == mode::root ? reduce : allreduce;
    }
    /// Returns null for mode replicate, which does nothing on the way down.
    generator down(mode m) const noexcept {
        return m == mode::scatter ? allgather : m == mode::root ? broadcast : nullptr;
    }
};

/// Returns the number of steps of a generator, the same for every position; 0 for null.
int steps_of(algorithm::generator emit, int size);

/// Algorithms, each with a unique name and at least one supported mode.
class algorithm_table {
public:
    /// @throws std::logic_error that names the row and the field, if a row has no name or that of another row, supports
    ///         no mode, or has only one generator of a pair (reduce_scatter and allgather, for example)
    explicit algorithm_table(std::vector<algorithm> rows);

    std::span<const algorithm> rows() const noexcept { return rows_; }
    /// Returns the algorithm of a name; null if it is unknown.
    const algorithm* find(std::string_view name) const noexcept {
        const auto found = std::ranges::find(rows_, name, &algorithm::name);
        return found == rows_.end() ? nullptr : &*found;
    }
    /// Returns the first algorithm with this graph that supports a mode; null if there is none.
    const algorithm* find(message_graph graph, mode m) const noexcept {
        const auto fits = [&](const algorithm& a) { return a.graph == graph && a.supports(m); };
        const auto found = std::ranges::find_if(rows_, fits);
        return found == rows_.end() ? nullptr : &*found;
    }

private:
    std::vector<algorithm> rows_;
};

/// Returns the table of all algorithms.
const algorithm_table& known_algorithms();

/// Returns all algorithms, in the order of the table.
inline std::span<const algorithm> algorithms() noexcept { return known_algorithms().rows(); }

/// Returns one row per provider with collectives of its own, named like the provider.
std::span<const algorithm> provider_collectives() noexcept;

/// Returns the algorithm of a name; null if it is unknown.
inline const algorithm* find_algorithm(std::string_view name) noexcept { return known_algorithms().find(name); }

/// Returns the row that runs a stage, an algorithm or a provider's own collective; null if there is none.
const algorithm* find_algorithm(const stage& s) noexcept;

/// Returns the reason why no row can run a stage; empty if one can.
std::string fault_of(const stage& s);

/// Returns "ring, halving, ...", the algorithms that support a mode.
std::string algorithm_names(mode m);

/// Returns "direct, ...", the algorithms that exchange blocks.
std::string exchanger_names();

}  // namespace terrace::detail
