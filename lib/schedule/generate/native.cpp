#include "schedule/generate/generators.hpp"

namespace terrace {

void native_reduce_scatter(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_reduce_scatter, g);
}

void native_allgather(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_allgather, g);
}

void native_reduce(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_reduce, g);
}

void native_broadcast(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_broadcast, g);
}

void native_allreduce(builder& out, const group& g) {
    out.next_step();
    out.native(action::stage_allreduce, g);
}

}  // namespace terrace
