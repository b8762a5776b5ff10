#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/builder.hpp"

namespace terrace::detail {

/// The pairs of positions between which an algorithm moves data, in all its collectives but those of direct
/// (algorithm::gather). Planners ask for it where they would otherwise have to know algorithms by name; tests compare
/// it with what the generators send.
enum class message_graph : std::uint8_t {
    any,              ///< none of these
    one_neighbour,    ///< all messages of a stage move one position on, in one direction around the group
    both_neighbours,  ///< every position sends to both neighbours at once: needs links of its own in both directions
    tree,             ///< no position is given anything by two others: ceil(lg p) messages from the root to the last
    node_rings,       ///< around several rings through each node, of a group that knows the nodes of its members
    all_at_once,      ///< straight from whoever has data to whoever gets it, and no message waits for another
};

/// A way to run one stage over one group: an algorithm of Terrace, or the own collective of a provider. A generator
/// emits the part of the group's position `g.position()`, ends on a step of its own (it calls next_step before each
/// exchange) and uses the same number of steps on every position. It is null for collectives that are not supported.
struct algorithm {
    using generator = void (*)(builder& out, const group& g);
    /// Moves what each member has for each other one: by position, where that lies and where it is to go.
    using exchanger = void (*)(builder& out, const group& g, std::span<const operand> gives,
                               std::span<const operand> gets);

    std::string_view name;
    std::string_view summary;
    generator reduce_scatter = nullptr;  ///< mode scatter, up: shard i reduced at position i
    generator allgather = nullptr;       ///< mode scatter, down: shard i from position i to all
    generator reduce = nullptr;          ///< mode root, up
    generator broadcast = nullptr;       ///< mode root, down
    generator allreduce = nullptr;       ///< mode replicate
    generator scatter = nullptr;  ///< mode scatter, up in a broadcast; mode root, of blocks, at the end of the way up:
                                  ///< shard i from the root to position i
    generator gather = nullptr;  ///< mode scatter, down in a reduce; mode root, of blocks, before the way down: shard i
                                 ///< from position i to the root. Without these two, a table gives a row those of
                                 ///< direct.
    exchanger exchange = nullptr;  ///< mode scatter, of collectives that exchange blocks; may be null
    /// The provider whose own collective this is: generators hand the stage over. Messages: an algorithm.
    detail::provider provider = detail::provider::messages;
    int (*rounds)(int size) = nullptr;  ///< exchanges that must wait for one another in one collective; null: all steps
    message_graph graph = message_graph::any;
    bool passes_on = false;  ///< the whole vector goes through one position after the other: pays only in many chunks
    /// Every step goes to other ranks and waits for the sends before it, so that chunks in flight at the same time lose
    /// most to one another (docs/explanation/planning.md).
    bool hinders_lanes = false;

    /// Returns how many exchanges must wait for one another in one collective over `size` positions: the start-ups that
    /// it costs. Of a row without `rounds`, the number of steps that its generator uses.
    int startups(int size) const;
    /// Returns true for an algorithm, false for a provider's own collective.
    bool sends() const noexcept { return provider == detail::provider::messages; }
    bool supports(mode m) const noexcept { return up(m) != nullptr; }
    generator up(mode m) const noexcept {
        return m == mode::scatter ? reduce_scatter : m == mode::root ? reduce : allreduce;
    }
    /// Null for replicate: nothing to do.
    generator down(mode m) const noexcept {
        return m == mode::scatter ? allgather : m == mode::root ? broadcast : nullptr;
    }
};

/// Returns how many steps a generator takes, the same for every position; of none, 0.
int steps_of(algorithm::generator emit, int size);

/// Algorithms, each with a name of its own and something that it can do.
class algorithm_table {
public:
    /// @throws std::logic_error that names the row and the field, if a row has no name or another row's, supports no
    ///         mode, or moves data only up or only down in mode scatter or root
    explicit algorithm_table(std::vector<algorithm> rows);

    std::span<const algorithm> rows() const noexcept { return rows_; }
    /// Returns the algorithm of a name; null if it is unknown.
    const algorithm* find(std::string_view name) const noexcept {
        const auto found = std::ranges::find(rows_, name, &algorithm::name);
        return found == rows_.end() ? nullptr : &*found;
    }
    /// Returns the first algorithm that sends over such a graph and supports a mode; null if there is none.
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

/// All algorithms, in the order in which they are listed.
inline std::span<const algorithm> algorithms() noexcept { return known_algorithms().rows(); }

/// One row per provider that has collectives of its own; its name is the provider's.
std::span<const algorithm> provider_collectives() noexcept;

/// Returns the algorithm of a name; null if it is unknown.
inline const algorithm* find_algorithm(std::string_view name) noexcept { return known_algorithms().find(name); }

/// Returns what runs a stage, its algorithm or its provider's own collective; null if it names neither.
const algorithm* find_algorithm(const stage& s) noexcept;

/// Returns why nothing known runs a stage in its mode; empty if something does.
std::string fault_of(const stage& s);

/// Returns "ring, halving, ...", the algorithms that support a mode.
std::string algorithm_names(mode m);

/// Returns "direct, ...", the algorithms that exchange blocks.
std::string exchanger_names();

}  // namespace terrace::detail
