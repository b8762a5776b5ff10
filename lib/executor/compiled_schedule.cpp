#include "executor/compiled_schedule.hpp"

#include <algorithm>
#include <utility>

#include "schedule/lone_stage.hpp"

namespace terrace::detail {

compiled_schedule::compiled_schedule(schedule s) : code(std::move(s)), order(code) {
    for (const instr& i : code.instrs) {
        most_sources = std::max(most_sources, i.sources);
        needs_staging |= i.what == action::recv_reduce;
    }
    brief = is_lone_stage(order);
    gives_copy = detail::gives_copy(code, order);
    takes_pieces = detail::takes_pieces(code, order);
}

}  // namespace terrace::detail
