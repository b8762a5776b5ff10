#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "schedule/registry.hpp"

namespace terrace::detail {

/// The messages of one step, or of equal steps in succession, between positions of a group.
struct exchange {
    struct message {
        int from = 0, to = 0;
        double part = 0;  ///< of the group's segment

        friend bool operator==(const message&, const message&) = default;
    };
    std::vector<message> messages;
    int times = 1;     ///< steps of these messages that follow one another
    int startups = 1;  ///< of these, steps that wait for one another and cost a latency each

    friend bool operator==(const exchange&, const exchange&) = default;
};

/// The messages of an algorithm over a group in one direction, read off its generator: the pattern is written nowhere
/// else.
struct pattern {
    std::vector<exchange> exchanges;
    /// By position, the segments that it adds to others: each reads two and writes one. k inputs at once count (k+1)/3.
    std::vector<double> reduced;
    /// Every position sends what position 0 sends, turned around the group; `exchanges` then hold the messages from
    /// position 0 alone.
    bool circulant = false;
    int rings = 0;             ///< rings of equal parts through all positions (message_graph::node_rings); 0: none
    bool by_provider = false;  ///< handed over to a provider: it has no exchanges of its own
};

/// What a phase in mode scatter has to do with a root, which is position 0 of rank 0's domain.
enum class root_part : std::uint8_t {
    none,      ///< nothing
    moves,     ///< a scatter, up, or a gather, down: only that domain moves data
    relieved,  ///< the same of group::with_root_relieved; what is gathered the root adds to what it has
    passed,    ///< the allgather after that, or the reduce-scatter before it, in that domain of group::without_root
};

/// Returns true if no other domain moves data.
constexpr bool only_at_root(root_part p) noexcept { return p == root_part::moves || p == root_part::relieved; }

/// Returns true if ranks of a group of this size would exchange messages with too many others at a time
/// (planner_policy::most_exchanges_at_once).
bool crowds(const algorithm& a, int size) noexcept;

/// Patterns by algorithm, way, size and blocks, each made once; the root is position 0.
class pattern_book {
public:
    /// What a stage of a mode does on the way up or down.
    struct way {
        mode how;
        bool down;
        root_part at_root = root_part::none;

        algorithm::generator of(const algorithm& a) const noexcept {
            if (only_at_root(at_root)) return down ? a.gather : a.scatter;
            return down ? a.down(how) : a.up(how);
        }
        friend auto operator<=>(const way&, const way&) = default;
    };

    /// Returns true if the planner considers an algorithm for groups of this size.
    bool worth_a_look(const algorithm& a, mode how, int size);
    /// @param blocks how many equal blocks each position's shard is made of; empty: all shards are equal
    const pattern& of(const algorithm& a, const way& w, int size, const std::vector<int>& blocks = {});
    /// The messages of an exchange: what each position has for the others, of which each gets a part as large as its
    /// shard. @param blocks as above
    const pattern& of_exchange(const algorithm& a, int size, const std::vector<int>& blocks);
    /// The same of rings through nodes. @param nodes the node of each position
    const pattern& of_rings(mode how, bool down, const std::vector<int>& nodes);

private:
    // Returns the pattern of a group that is too large to be run position by position.
    std::optional<pattern> extrapolated(const algorithm& a, const way& w, int size);

    std::map<std::tuple<std::string_view, way, int, std::vector<int>>, pattern> pages_;
    std::map<std::tuple<mode, bool, std::vector<int>>, pattern> rings_;
    std::map<std::tuple<std::string_view, int, std::vector<int>>, pattern> exchanges_;
};

}  // namespace terrace::detail
