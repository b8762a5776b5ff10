#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "schedule/registry.hpp"

namespace terrace {

/// Messages of one step, or of equal steps in succession. Positions are those of the group.
struct exchange {
    struct message {
        int from = 0, to = 0;
        double part = 0;  ///< of the group's segment

        friend bool operator==(const message&, const message&) = default;
    };
    std::vector<message> messages;
    int times = 1;     ///< how many steps of these messages follow one another
    int startups = 1;  ///< how many of them wait for one another: latencies paid

    friend bool operator==(const exchange&, const exchange&) = default;
};

/// What an algorithm sends over a group in one direction, read off its generator: the pattern is written nowhere else.
struct pattern {
    std::vector<exchange> exchanges;
    std::vector<double>
        reduced;  ///< by position: work of reducing, in segments added to others (two read, one written)
    /// Every position sends what position 0 sends, turned around the group; `exchanges` then hold the messages from
    /// position 0 alone.
    bool circulant = false;
    bool native = false;  ///< handed to the transport: it has no exchanges of its own

    template <class F>
    void for_each_message(const exchange& e, F&& f) const {
        const int size = static_cast<int>(reduced.size());
        for (const exchange::message& m : e.messages) {
            if (!circulant) f(m.from, m.to, m.part);
            for (int i = 0; circulant && i < size; ++i) f(i, m.to + i < size ? m.to + i : m.to + i - size, m.part);
        }
    }
};

/// No rank exchanges messages with more others than this at a time.
inline constexpr int crowd = 1024;

/// Patterns by algorithm, mode, direction, size and blocks, each made once; the root is position 0.
class pattern_book {
public:
    /// Whether planners consider it for groups of this size.
    bool worth_a_look(const algorithm& a, mode how, int size);
    /// @param blocks how many equal blocks each position's shard is made of; empty: all shards are equal
    const pattern& of(const algorithm& a, mode how, bool down, int size, const std::vector<int>& blocks = {});

private:
    std::map<std::tuple<std::string_view, mode, bool, int, std::vector<int>>, pattern> pages_;
};

}  // namespace terrace
