#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "schedule/verify/proof.hpp"
#include "schedule/verify/stage_steps.hpp"

namespace terrace::detail::proof {

/// Where the caller's buffers are, by rank.
struct buffer_case {
    std::vector<bool> in_place;   // send is recv
    std::vector<bool> reachable;  // peers on the node reach recv, though the vector is at home in scratch
};

/// One stage, as one group runs it.
struct stage_instance {
    std::vector<std::size_t> ids;  // instructions, by position
    // In the case of now:
    std::vector<member_memory> members;  // by position
    stage_work work;
};

/// 4. Stages. Every member of a group runs each of its stages, on the same terms; what peers use lies in memory that
/// they reach and inside the operands of the stage; members wait for one another before they use the same memory.
class stages {
public:
    explicit stages(const network& net);

    bool none() const noexcept { return instances_.empty(); }
    /// All cases that make a difference to how some stage works, or to what some rank reads.
    std::vector<buffer_case> cases() const;
    /// Decides how members share the work in a case, as they do at run time, and proves the stages' memory.
    void settle(const buffer_case& now);

    const stage_instance& instance(std::size_t n) const { return instances_[n]; }
    std::size_t number_of(std::size_t id) const { return number_[id]; }
    int position_of(std::size_t id) const { return group_of(id).position(); }
    std::span<const range> shards_of(const stage_instance& s) const { return group_of(s.ids.front()).shards(); }
    /// Returns what the instruction's rank does in a round.
    stage_step step(std::size_t id, int round) const {
        const stage_instance& s = instances_[number_[id]];
        return step_of(s.work, round, position_of(id), s.members, shards_of(s));
    }
    /// The elements of a part, as its owner names them. @param own it is what the owner itself adds up of its own
    operand operand_of(const stage_instance& s, const stage_part& p, bool own) const;

    /// The buffer in which an instruction's rank reads its own part of what it adds up.
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
    // Kinds of stages that have been proved: how it works, memory, which shards are empty.
    std::set<std::tuple<action, sharing, int, std::vector<member_memory>, std::vector<bool>>> proved_;
};

}  // namespace terrace::detail::proof
