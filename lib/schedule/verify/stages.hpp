#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "schedule/verify/proof.hpp"
#include "schedule/verify/stage_steps.hpp"

namespace terrace::detail::proof {

/// Properties of the caller's buffers, by rank.
struct buffer_case {
    std::vector<bool> in_place;   // send is recv
    std::vector<bool> reachable;  // peers on the node can access recv, though the vector's home is scratch
};

/// One stage, as one group runs it.
struct stage_instance {
    std::vector<std::size_t> ids;  // instructions, by position
    // In the current case:
    std::vector<member_memory> members;  // by position
    stage_work work;
};

/// 4. Stages. Every member of a group runs each of its stages, with the same arguments. Peers use only memory that they
/// can access, inside the stage's operands. Members wait for one another before they use the same memory.
class stages {
public:
    explicit stages(const network& net);

    bool none() const noexcept { return instances_.empty(); }
    /// Returns the cases to prove: no, all or every other rank in place or reachable, if stages depend on it.
    std::vector<buffer_case> cases() const;
    /// Sets the division of work in a case, as at run time, and proves the use of memory in the stages.
    void settle(const buffer_case& now);

    const stage_instance& instance(std::size_t n) const { return instances_[n]; }
    std::size_t number_of(std::size_t id) const { return number_[id]; }
    int position_of(std::size_t id) const { return group_of(id).position(); }
    std::span<const range> shards_of(const stage_instance& s) const { return group_of(s.ids.front()).shards(); }
    /// Returns the work of the instruction's rank in a round.
    stage_step step(std::size_t id, int round) const {
        const stage_instance& s = instances_[number_[id]];
        return step_of(s.work, round, position_of(id), s.members, shards_of(s));
    }
    /// Returns a part as an operand of its owner. @param own the part is the owner's own input of its sum
    operand operand_of(const stage_instance& s, const stage_part& p, bool own) const;

    /// Returns the buffer from which an instruction's rank reads its own input of a sum.
    buffer own_part(std::size_t id) const;

private:
    const group& group_of(std::size_t id) const { return net_.home(id).groups[at(net_.instruction(id).peer)]; }
    void meet();
    void check_terms(const stage_instance& s) const;
    void check_reach(std::size_t id) const;
    void check_operands(const stage_instance& s) const;

    const network& net_;
    std::vector<stage_instance> instances_;
    std::vector<std::size_t> number_;  // by id: the instance of a stage
    std::vector<bool> copied_;         // by rank: gives_copy
    // Kinds of stages that have been proved: action, division of work, root, memory, which shards are empty.
    std::set<std::tuple<action, sharing, int, std::vector<member_memory>, std::vector<bool>>> proved_;
};

}  // namespace terrace::detail::proof
