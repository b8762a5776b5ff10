// The programs that calls run: one for each shape of call, and more while several are in flight.

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "api/core.hpp"
#include "plan/plan_access.hpp"
#include "schedule/compose.hpp"
#include "schedule/slice.hpp"

namespace terrace::detail {

// A shorter vector is copied into a slot sooner than peers have read it in the caller's memory, and the call would wait
// for them.
bool communicator_core::reachable(const call_shape& call, const void* send, const void* recv) const noexcept {
    constexpr std::size_t worth_no_copy = 1024;  // [bytes], as measured: docs/performance.md
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.type);
    return bytes >= worth_no_copy && !has_blocks(call.what) && net_->reachable(recv, bytes) &&
           (send == recv || net_->reachable(send, bytes));
}

communicator_core::programs::entry* communicator_core::find_idle(const call_shape& call, bool near) noexcept {
    if (call.has_own_lengths() && (!call.counts.empty() || !call.received.empty()))
        return find_idle(call.of_program(), near);
    return programs_.use(
        call, [&](const programs::entry& e) { return e.peers_reach_it == near && engine_->done(e.last_call); });
}

communicator_core::programs::entry& communicator_core::program_for(const call_shape& call, std::uint64_t signature,
                                                                   bool near) {
    programs::entry* idle = find_idle(call, near);
    return idle != nullptr ? *idle : bind_new(call, signature, near);
}

// While a call of the same shape is in flight, this one gets a program of its own.
communicator_core::programs::entry& communicator_core::bind_new(const call_shape& call, std::uint64_t signature,
                                                                bool near) {
    const call_shape made = call.of_program();
    programs::entry& added = programs_.add({made, signature, near, bind(made, near)},
                                           [&](std::uint64_t number) { return engine_->done(number); });
    engine_->scratch().keep(options_.memory - std::min(programs_.bytes(), options_.memory));
    return added;
}

// Other ranks begin the call in any case.
void communicator_core::lend_scratch(programs::entry& to, std::size_t more) {
    or_fail([&] {
        if (!to.run.borrow(engine_->scratch(), more))
            throw memory_error(to.run.scratch_bytes() + more, "scratch memory of " + describe(to.shape));
    });
}

program communicator_core::bind(const call_shape& call, bool near) {
    const rule chosen = binding_.rule_to_run(call);
    auto [chunks, lanes, full, tail, steps] = binding_.schedules_of(
        call, chosen, net_->can(), near ? buffer::recv : buffer::scratch, {.slot_bytes = net_->can().slot_bytes});
    const bool placed = net_->can().slots > 0 && uses_lane_slots(chosen);
    if (options_.log)
        options_.log(log_level::debug, fmt::format("{} of {} {}: {}, {} lanes, {} chunks of {}", name_of(call),
                                                   binding_.elements_of(call), to_string(call.type),
                                                   describe(data_of(plan_).machine, chosen.stages), lanes,
                                                   chunks.chunks, std::max(full.count, tail.count)));
    program made(std::move(full), std::move(tail),
                 {.element = size_of(call.type),
                  .reduce = find_reduce(call.type, call.op, widest_vectors(),
                                        binding_.uses_tree(call) ? grouping::by_tree : grouping::in_order),
                  .divisor = call.op == reduce_op::avg ? size() : 1,
                  .type = call.type,
                  .chunks = chunks,
                  .steps = std::move(steps),
                  .lanes = lanes,
                  .placed = placed,
                  .slot_bytes = placed ? net_->can().slot_bytes : 0,
                  .streams = streams(call),
                  .owners = binding_.meets_wire_types(call) ? owners_of(chosen, call) : 1,
                  .own_lengths = call.has_own_lengths()},
                 *net_);
    or_fail([&] { made.take_slots(); });  // the other ranks begin the call
    return made;
}

// Several where an outermost stage replicates.
int communicator_core::owners_of(const rule& r, const call_shape& call) const {
    const composition c = compose_for(net_->rank(), data_of(plan_).machine, r.stages, binding_.elements_of(call),
                                      quantum_of(size_of(call.type)));
    for (const owned& o : c.owners)
        if (std::ranges::count(o.owners, net_->rank()) > 0) return static_cast<int>(o.owners.size());
    return 1;
}

// True for buffers so long that what is written has left the cache before anybody reads it.
bool communicator_core::streams(const call_shape& call) const {
    static const std::int64_t cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
    return cache > 0 && 2 * binding_.elements_of(call) * static_cast<std::int64_t>(size_of(call.type)) > cache;
}

// An allreduce multiplies its elements on the way to recv, and works in place there; else they are in plain memory.
bool communicator_core::peers_reach(const call_shape& call, const void* send, const void* recv) const noexcept {
    const bool multiplies = call.op == reduce_op::premul_sum && goes_up(call.what);
    return multiplies ? call.what == collective::allreduce && reachable(call, recv, recv) : reachable(call, send, recv);
}

// Returns this rank's elements, multiplied: in recv where there is room for all of them, else in what it lends.
const void* communicator_core::multiplied(programs::entry& by, const void* send, void* recv, double factor) {
    const std::int64_t count = binding_.elements_of(by.shape);
    if (by.shape.what != collective::allreduce) {
        lend_scratch(by, static_cast<std::size_t>(count) * size_of(by.shape.type));
        recv = by.run.more_memory();
    }
    multiply(recv, send, count, by.shape.type, factor);
    return recv;
}

}  // namespace terrace::detail
