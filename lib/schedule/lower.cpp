#include "schedule/lower.hpp"

#include "schedule/registry.hpp"

namespace terrace {

namespace {

algorithm::generator expansion(action a) {
    const algorithm& direct = *find_algorithm("direct");
    switch (a) {
        case action::stage_reduce_scatter: return direct.reduce_scatter;
        case action::stage_allgather: return direct.allgather;
        case action::stage_reduce: return direct.reduce;
        case action::stage_broadcast: return direct.broadcast;
        default: return find_algorithm("doubling")->allreduce;
    }
}

}  // namespace

schedule lower(const schedule& s, const capabilities& can) {
    // No expansion takes more steps than there are ranks, plus one. Ranks with nothing to expand leave the same room:
    // the steps of their messages must agree with the others'.
    const int room = s.ranks + 2;
    builder out(s.rank, s.ranks, s.what, s.count, s.home);
    out.scratch(s.scratch - (s.home.where == buffer::scratch ? s.count : 0));
    for (const range& part : s.owned) out.owns(part);
    int phase = -1;
    for (const instr& i : s.instrs) {
        if (i.phase != phase) out.begin_phase(s.phases[static_cast<std::size_t>(phase = i.phase)]);
        out.go_to_step(i.step * room);
        if (!is_stage(i.what) || can.runs(i.what)) {
            out.repeat(s, i);
            continue;
        }
        const stage_group& g = s.groups[static_cast<std::size_t>(i.peer)];
        expansion(i.what)(out, {g.members, g.shards, i.src.part, g.position, g.root});
    }
    return out.finish();
}

}  // namespace terrace
