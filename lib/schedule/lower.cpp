#include "schedule/lower.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace terrace::detail {

algorithm::generator expansion(action a) {
    const algorithm& direct = *find_algorithm("direct");
    switch (a) {
        case action::stage_reduce_scatter: return direct.reduce_scatter;
        case action::stage_allgather: return direct.allgather;
        case action::stage_reduce: return direct.reduce;
        case action::stage_broadcast: return direct.broadcast;
        case action::stage_scatter: return direct.scatter;
        case action::stage_gather: return direct.gather;
        default: return direct.allreduce;
    }
}

bool capabilities::runs(action a, const group& g) const {
    if ((stages >> static_cast<unsigned>(a) & 1u) == 0) return false;
    const bool by_shard = a == action::stage_reduce_scatter || a == action::stage_allgather;
    if (groups) {
        const auto equal = [&](const range& r) { return r.count() == g.shards().front().count(); };
        return groups->contains(g.members()) && (!by_shard || std::all_of(g.shards().begin(), g.shards().end(), equal));
    }
    if (domain.empty()) return true;
    const auto of = [&](int rank) { return domain[at(rank)]; };
    const auto together = [&](int m) { return of(m) == of(g.members().front()); };
    return std::all_of(g.members().begin(), g.members().end(), together);
}

schedule lower(schedule s, const capabilities& can) {
    // No expansion has more steps than the number of ranks plus two. Ranks with nothing to expand leave the same number
    // of steps, since both ends of a message must have the same step.
    const int room = s.ranks + 3;
    const auto stays = [&](const instr& i) { return !is_stage(i.what) || can.runs(i, s.groups[at(i.peer)]); };
    if (std::all_of(s.instrs.begin(), s.instrs.end(), stays)) {
        for (instr& i : s.instrs) i.step *= room;
        return s;
    }
    builder out(s.rank, s.ranks, s.what, s.count, s.home);
    out.scratch(s.scratch - (s.home.where == buffer::scratch ? s.count : 0));
    out.wire(s.wire);
    for (const range& part : s.owned) out.owns(part);
    // Phases of routes begin in one order on all ranks, whatever messages a rank has.
    for (const phase& p : s.phases)
        if (p.route > 0) out.begin_phase(p);
    int phase = -1;
    for (const instr& i : s.instrs) {
        if (i.phase != phase) out.begin_phase(s.phases[at(phase = i.phase)]);
        out.go_to_step(i.step * room);
        if (stays(i)) {
            out.repeat(s, i);
            continue;
        }
        const group& stage = s.groups[at(i.peer)];
        out.begin_role({.complete = complete_rank(s.what, stage)});
        expansion(i.what)(out, stage);
        if (i.dst.where == s.home.where) continue;
        out.next_step();
        out.copy(i.dst, i.dst.part);
    }
    return out.finish();
}

}  // namespace terrace::detail
