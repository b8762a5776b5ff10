#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/compose.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

/// The messages of one step, or of equal steps in succession, between positions of a group.
struct exchange {
    struct message {
        int from = 0, to = 0;
        double part = 0;  ///< of all that the group divides

        friend bool operator==(const message&, const message&) = default;
    };
    std::vector<message> messages;
    int times = 1;     ///< steps of these messages that follow one another
    int startups = 1;  ///< of these, steps that wait for one another and cost a latency each
    int moves = 0;     ///< positions by which the messages of each step are further on than those of the one before

    /// Returns in how many of the steps position 0 sends such a message.
    int times_from_first(const message& m) const noexcept {
        if (moves == 0) return m.from == 0 ? times : 0;
        return m.from % moves == 0 && -m.from / moves >= 0 && -m.from / moves < times ? 1 : 0;
    }

    friend bool operator==(const exchange&, const exchange&) = default;
};

/// What the members of a group do in one direction of a stage, read off the programs of its positions: the algorithm is
/// written nowhere else.
struct pattern {
    int size = 0;  ///< of the group
    std::vector<exchange> exchanges = {};
    /// By position, the part that it adds to others: of each it reads two and writes one. k inputs at once count
    /// (k+1)/3. Where all positions do the same, the first entry is that of all.
    std::vector<double> reduced = {};
    /// Every position sends what position 0 sends, turned around the group; `exchanges` then hold the messages from
    /// position 0 alone.
    bool circulant = false;
    int rings = 0;  ///< rings of equal parts through all positions (message_graph::node_rings); 0: none
    std::optional<action> handed_over = {};  ///< to a provider, as a collective of its own, without exchanges

    double reduced_by(int position) const noexcept {
        return circulant ? reduced.front() : reduced[static_cast<std::size_t>(position)];
    }
    bool adds() const noexcept;
    /// Returns true if in every step all positions send one message to the next.
    bool is_ring() const;
};

/// Returns true if ranks of a group of this size would exchange messages with too many others at a time
/// (planner_policy::most_exchanges_at_once).
bool crowds(const algorithm& a, int size) noexcept;

/// Who divides what: all that a pattern depends on beside the generator.
struct division {
    int size = 1;
    int root = group::no_root;
    /// By position, in proportion; of an exchange what position i has for position j, at i * size + j. Empty: equal.
    std::vector<int> parts = {};
    std::vector<int> nodes = {};  ///< by position, counted from the first; only of rings through nodes
    bool root_adds = false;

    friend auto operator<=>(const division&, const division&) = default;
};

/// Returns the parts as ranges, one after the other, each so many times as long.
std::vector<range> shards_of(const division& d, int times = 1);
/// Returns what a group divides. Parts that differ by rounding alone are equal.
division division_of(const group& g);

/// Patterns of generators, each made once.
class pattern_book {
public:
    /// Returns true if the planner considers an algorithm for groups of this size.
    bool worth_a_look(const algorithm& a, mode how, int size);
    /// @param emit a generator of the algorithm; null: its exchange, whose parts are relative to what a position gives
    ///             to all others, on average
    const pattern& of(const algorithm& a, algorithm::generator emit, const division& d);

private:
    std::map<std::pair<algorithm::generator, division>, pattern> pages_;
};

}  // namespace terrace::detail
