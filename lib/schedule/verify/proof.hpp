#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"

// What the parts of the proof share. Each throws a fault, which find_fault catches, and relies on those before it.

namespace terrace::proof {

struct fault {
    std::string text;
};

/// Throws a fault of instruction `n`.
[[noreturn]] void refuse(const schedule& s, std::size_t n, const std::string& why);

/// "recv[3, 5)"
std::string text(const operand& o);

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }
inline bool is_receive(action a) { return a == action::recv || a == action::recv_reduce; }
inline bool is_message(action a) { return a == action::send || is_receive(a); }
inline bool writes(action a) { return a != action::send; }

/// Calls f(operand) for all that the instruction reads.
template <class F>
void for_each_read(const schedule& s, const instr& i, F&& f) {
    if (i.what == action::send || i.what == action::recv_reduce || i.what == action::copy) f(i.src);
    if (i.what == action::reduce)
        for (const operand& o : s.sources_of(i)) f(o);
}

/// 1. Every schedule by itself is well-formed.
void check_form(std::span<const schedule> all);

/// 2. The ends of all messages match. All instructions of all ranks under one numbering, and which receive takes which
/// send.
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
    /// The other end of a message.
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
    void match();

    std::span<const schedule> schedules_;
    std::vector<std::size_t> first_;    // id of each rank's first instruction
    std::vector<int> rank_;             // by id
    std::vector<std::size_t> partner_;  // by id, of messages
};

/// 3. No deadlock. Returns the instructions in an order in which they may complete; a message stands there once, as its
/// send.
std::vector<std::size_t> completion_order(const network& net);

/// 4. No race.
void check_races(const network& net);

/// 5. The postcondition, in place and out of place, given an order in which everything may complete.
void check_result(const network& net, std::span<const std::size_t> order);

}  // namespace terrace::proof
