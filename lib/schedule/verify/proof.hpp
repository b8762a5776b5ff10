#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "schedule/schedule.hpp"
#include "schedule/verify.hpp"

// Shared by the parts of the proof. Each part throws a fault, which find_fault catches, and relies on earlier parts.

namespace terrace::detail::proof {

struct fault {
    std::string text;
};

/// Throws a fault of instruction `n`.
[[noreturn]] void refuse(const schedule& s, std::size_t n, const std::string& why);

/// Returns "recv[3, 5)".
std::string text(const operand& o);

inline bool is_receive(action a) { return a == action::recv || a == action::recv_reduce; }
inline bool is_message(action a) { return a == action::send || is_receive(a); }
inline bool writes(action a) { return a != action::send; }

/// Returns true if operands of two buffers may overlap: in place send and recv are one memory.
inline bool same_memory(buffer a, buffer b, bool in_place) {
    const auto is_callers = [](buffer which) { return which == buffer::send || which == buffer::recv; };
    return a == b || (in_place && is_callers(a) && is_callers(b));
}

/// Calls f(operand) for each operand that the instruction reads, or that peers read while it runs.
template <class F>
void for_each_read(const schedule& s, const instr& i, F&& f) {
    if (i.what != action::recv && i.what != action::reduce) f(i.src);
    if (i.what == action::reduce || is_stage(i.what))
        for (const operand& o : s.sources_of(i)) f(o);
}

/// One rank's input and result in a collective. A place is an element of the whole vector, or of the caller's buffer of
/// all blocks. In place, equal places are the same memory, and data given at a place are due at the same place. In
/// alltoall, which does not work in place, the places of all input follow those of all results.
struct stake {
    std::int64_t send_at = 0, recv_at = 0;  // places of the buffers' first elements
    std::vector<range> given, due;          // contents of send, and of recv at the end; ascending and disjoint

    /// Returns the places of an operand; for scratch, its elements.
    range place(const operand& o) const {
        const std::int64_t by = o.where == buffer::send ? send_at : o.where == buffer::recv ? recv_at : 0;
        return {o.part.begin + by, o.part.end + by};
    }
    /// Returns true if an operand of send is all given, or one of recv all due.
    bool holds(const operand& o) const;
};

/// 1. The schedules are those of one collective, and the caller's arguments fit. Has each rank's input and result.
class contract {
public:
    contract(std::span<const schedule> all, const expectation& of);

    const stake& of(int rank) const { return stakes_[at(rank)]; }
    /// Returns true if results are sums of all ranks' inputs at a place; else they are one rank's input.
    bool adds() const { return adds_; }
    /// Returns true if the reduction that completes a sum must be marked.
    bool marks_completion() const { return marks_completion_; }

    /// A part of a result whose source is one rank's input, from a place on.
    struct origin {
        range due;
        int rank = 0;
        std::int64_t place = 0;
    };
    /// Returns the source of each part of a rank's result in alltoall; nothing in other collectives.
    std::vector<origin> origins_of(int rank) const;

private:
    bool adds_, marks_completion_;
    std::vector<stake> stakes_;
    std::vector<range> exchanged_;  // blocks by rank in alltoall, else empty
};

/// 2. Every schedule by itself is well-formed.
void check_form(std::span<const schedule> all, const contract& terms);

/// 3. The ends of all messages match. Numbers all instructions of all ranks, and pairs receives with sends.
class network {
public:
    explicit network(std::span<const schedule> all);

    std::span<const schedule> schedules() const { return schedules_; }
    std::size_t size() const { return rank_.size(); }
    std::size_t id(int rank, std::size_t n) const { return first_[at(rank)] + n; }
    int rank(std::size_t id) const { return rank_[id]; }
    const schedule& home(std::size_t id) const { return schedules_[at(rank_[id])]; }
    std::size_t number(std::size_t id) const { return id - first_[at(rank_[id])]; }
    const instr& instruction(std::size_t id) const { return home(id).instrs[number(id)]; }
    /// Returns the other end of a message.
    std::size_t partner(std::size_t message) const { return partner_[message]; }

    template <class F>
    void for_each_successor(std::size_t id, F&& f) const {
        for (std::uint32_t n : home(id).successors_of(instruction(id))) f(this->id(rank_[id], n));
    }

    [[noreturn]] void refuse(std::size_t id, const std::string& why) const { proof::refuse(home(id), number(id), why); }

private:
    struct end {
        int from, to;
        std::size_t id;
        auto way() const { return std::pair(from, to); }
    };

    std::vector<end> ends(bool receives) const;

    std::span<const schedule> schedules_;
    std::vector<std::size_t> first_;    // id of each rank's first instruction
    std::vector<int> rank_;             // by id
    std::vector<std::size_t> partner_;  // by id, of messages
};

class stages;
struct buffer_case;
class expressions;

/// An instruction, or one round of a stage.
struct event {
    std::size_t id = 0;
    int round = 0;
};

/// 5. No deadlock. Returns all events in a possible order. A message is one event, that of its send.
std::vector<event> completion_order(const network& net, const stages& with);

/// 6. No race.
void check_races(const network& net, const contract& terms, const stages& with);

/// 7. The postcondition, given a possible order of all events.
/// @param sums expressions computed in other cases
void check_result(const network& net, const contract& terms, const stages& with, const buffer_case& now,
                  std::span<const event> order, expressions& sums);

}  // namespace terrace::detail::proof
