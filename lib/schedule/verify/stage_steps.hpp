#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/index.hpp"
#include "schedule/stage_work.hpp"

// One stage in shared memory: the work of its members in each round, and a proof that their waits suffice.

namespace terrace::detail::proof {

/// The memory that a member of a stage uses.
struct member_memory {
    bool in_place = false;         ///< the result replaces the input
    bool result_reachable = true;  ///< peers can access the memory of the result
    bool own_in_result = false;    ///< its own input of a sum lies in the memory of the result

    friend auto operator<=>(const member_memory&, const member_memory&) = default;
};

/// A part of a member's memory, in its input or its result.
struct stage_part {
    int owner = 0;  ///< position
    stage_memory memory = stage_memory::given;
    range part;
};

/// One member's work in one round: writes the sum of all reads to every part of `writes`, or copies read k to
/// write k.
struct stage_step {
    bool adds = false;
    std::vector<stage_part> reads, writes;
};

/// @param Work stage_work; tests use variants of it
template <class Work>
stage_step step_of(const Work& work, int round, int member, std::span<const member_memory> members,
                   std::span<const range> shards) {
    const stage_round& now = work.round(round);
    const member_memory& own = members[at(member)];
    const auto resolved = [&](stage_memory m, int owner) {
        if (m != stage_memory::exposed) return m;
        return members[at(owner)].result_reachable ? stage_memory::result : stage_memory::given;
    };
    stage_step made{.adds = now.adds, .reads = {}, .writes = {}};
    for (int owner = 0; owner < static_cast<int>(members.size()); ++owner) {
        const range from = work.read(round, member, owner, shards);
        stage_memory source = resolved(now.from, owner);
        if (now.adds && owner == member && own.own_in_result) source = stage_memory::result;
        // Data that are already in place are not copied.
        const bool stays = !now.adds && owner == member && (own.in_place || source == stage_memory::result);
        if (from.empty() || stays) continue;
        made.reads.push_back({owner, source, from});
        if (!now.adds) made.writes.push_back({member, stage_memory::result, from});
    }
    for (int owner = 0; now.adds && owner < static_cast<int>(members.size()); ++owner) {
        const range to = work.written(round, member, owner, shards);
        if (!to.empty())
            made.writes.push_back({owner, now.to_all ? stage_memory::result : resolved(now.to, owner), to});
    }
    return made;
}

/// Proves that each member of a stage uses a peer's memory only between the peer's arrival and its leave, and that two
/// members that use the same elements, one of them writing, do so one after the other. Returns nothing if both hold,
/// else the fault.
template <class Work>
std::optional<std::string> find_stage_fault(const Work& work, std::span<const member_memory> members,
                                            std::span<const range> shards) {
    struct use {
        int member, round;
        bool writes;
        stage_part what;
    };
    // Returns true if `first` has always completed `round` before `then` begins its round `before`.
    const auto waits = [&](int first, int round, int then, int before) {
        for (int r = round + 1; r <= before; ++r)
            if (work.awaits(r, then, first)) return true;
        return false;
    };
    const auto name = [](const use& u) {
        return fmt::format("member {} {} what member {} {} in round {}", u.member, u.writes ? "writes" : "reads",
                           u.what.owner, u.what.memory == stage_memory::given ? "gives" : "gets", u.round + 1);
    };
    std::vector<std::vector<use>> uses(members.size());  // by owner
    for (int r = 0; r < work.rounds(); ++r)
        for (int m = 0; m < static_cast<int>(members.size()); ++m) {
            const stage_step step = step_of(work, r, m, members, shards);
            for (const stage_part& p : step.reads) uses[at(p.owner)].push_back({m, r, false, p});
            for (const stage_part& p : step.writes) uses[at(p.owner)].push_back({m, r, true, p});
        }
    for (int owner = 0; owner < static_cast<int>(members.size()); ++owner) {
        const std::vector<use>& all = uses[at(owner)];
        const auto same_memory = [&](const use& a, const use& b) {
            return members[at(owner)].in_place || a.what.memory == b.what.memory;
        };
        for (const use& u : all) {
            if (u.member == owner) continue;
            if (u.writes && u.what.memory == stage_memory::result && !members[at(owner)].result_reachable)
                return name(u) + ", which it does not reach";
            if (!waits(owner, -1, u.member, u.round)) return name(u) + " and may do so before that one has arrived";
            if (!waits(u.member, u.round, owner, work.rounds()))
                return name(u) + " and may do so when that one has left";
        }
        for (const use& w : all)
            for (const use& u : all) {
                if (!w.writes || u.member == w.member || !u.what.part.overlaps(w.what.part) || !same_memory(u, w))
                    continue;
                if (!waits(u.member, u.round, w.member, w.round) && !waits(w.member, w.round, u.member, u.round))
                    return name(w) + ", and nothing orders that and what " + name(u) + " does";
            }
    }
    return {};
}

}  // namespace terrace::detail::proof
