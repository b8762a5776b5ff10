#include "executor/compiled_schedule.hpp"

#include <algorithm>
#include <utility>

namespace terrace::detail {

compiled_schedule::compiled_schedule(schedule s) : code(std::move(s)), order(code) {
    for (const instr& i : code.instrs) {
        most_sources = std::max(most_sources, i.sources);
        needs_staging |= i.what == action::recv_reduce;
    }
    brief = order.sends.empty() && order.receives.empty() && order.stages.size() == 1 &&
            order.successors_of(order.stages.front()).empty();
    if (!brief || order.locals.size() != 1) return;
    const instr& only = code.instrs[order.locals.front()];
    gives_copy = only.what == action::copy && only.src == operand{buffer::send, {0, code.count}};
}

}  // namespace terrace::detail
