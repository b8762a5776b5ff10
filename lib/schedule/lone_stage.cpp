#include "schedule/lone_stage.hpp"

namespace terrace::detail {

bool is_lone_stage(const lane_code& order) {
    return order.sends.empty() && order.receives.empty() && order.stages.size() == 1 &&
           order.successors_of(order.stages.front()).empty();
}

bool gives_copy(const schedule& s, const lane_code& order) {
    if (!is_lone_stage(order) || order.locals.size() != 1) return false;
    const instr& only = s.instrs[order.locals.front()];
    return only.what == action::copy && only.src == operand{buffer::send, {0, s.count}};
}

bool takes_pieces(const schedule& s, const lane_code& order) {
    if (!is_lone_stage(order)) return false;
    for (const std::uint32_t n : order.locals)
        if (s.instrs[n].what != action::copy || s.instrs[n].src.where != buffer::send) return false;
    const instr& stage = s.instrs[order.stages.front()];
    return stage.what == action::stage_allreduce && stage.by == provider::shared_memory &&
           stage.src.where == buffer::scratch && stage.dst == operand{buffer::recv, {0, s.count}};
}

buffer own_part_of(const schedule& s, const instr& stage, bool copied) {
    if (stage.sources > 0) return s.sources_of(stage).front().where;
    return copied ? buffer::send : stage.src.where;
}

}  // namespace terrace::detail
