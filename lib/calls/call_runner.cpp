#include "calls/call_runner.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "plan/plan_yaml.hpp"
#include "schedule/compose.hpp"
#include "schedule/slice.hpp"

namespace terrace::detail {

uneven_call::way call_runner::way_of(const uneven_blocks& b) const {
    using way = uneven_call::way;
    if (row_of(b.what).has_root()) return way::lengths_first;
    const std::int64_t slot = uneven_call::slot_of(b);
    const rule& r = with_.bound.plan.choose(collective::alltoall, slot * size());
    if (r.stages.size() > 1) return way::full_slots;
    const bool in_whole_blocks = is_straight(r) && r.stages.front().sends() && r.chunk == 0;
    return in_whole_blocks && with_.net.wire().traits().takes_shorter && slot <= uneven_call::most_filled_slot
               ? way::filled_slots
               : way::lengths_first;
}

std::uint64_t call_runner::issue(const call_shape& call, call_buffers b, double factor, programs::entry* found) {
    if (call.count == 0 && (call.counts.empty() || call.has_own_lengths())) return 0;
    if (found == nullptr) found = &program_for(call, peers_reach(call, b.send, b.recv));
    if (call.multiplies()) b.send = multiplied(*found, b.send, b.recv, factor);
    if (!found->run.has_scratch()) lend_scratch(*found);
    if (call.is_barrier) {
        found->memory.resize(1);
        b.send = b.recv = found->memory.data();
    }
    if (call.has_own_lengths()) b.layout = own_lengths{call.count, call.counts, call.received};
    found->last_call = with_.running.issue(found->run, b, with_.call_order.stamp());
    if (with_.events.keeps_everything())
        with_.events.describe({found->last_call, call.what, call.type, with_.bound.bytes_of(call)});
    const std::uint64_t number = found->last_call;
    with_.begun();
    return number;
}

// ---- plans

bool call_runner::follow_plan() {
    if (!with_.plan_change.is_under_way()) return true;
    if (!with_.plan_change.may_begin()) return false;
    if (const std::optional<std::string> text = with_.plan_change.due())
        with_.failure.latch([&] {
            std::shared_ptr<const plan_data>& known = plans_[*text];
            if (!known && *text != with_.bound.plan.text)
                known = std::make_shared<const plan_data>(parse_plan(*text, "the plan that calls change to"));
            plan_ = known;
        });
    return true;
}

// ---- programs

// A shorter vector is copied into a slot sooner than peers can read it in the caller's memory, and the call would wait
// for the peers. An allreduce multiplies its elements on the way to recv, and works in place there. Other multiplied
// elements lie in memory that peers cannot access.
bool call_runner::peers_reach(const call_shape& call, const void* send, const void* recv) const noexcept {
    constexpr std::size_t worth_no_copy = 1024;  // [bytes], as measured: docs/performance.md
    if (call.multiplies() && call.what != collective::allreduce) return false;
    const void* const given = call.multiplies() ? recv : send;
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.type);
    return bytes >= worth_no_copy && !row_of(call.what).blocks && with_.net.reachable(recv, bytes) &&
           (given == recv || with_.net.reachable(given, bytes));
}

call_runner::programs::entry* call_runner::find_idle(const call_shape& call, bool near) noexcept {
    if (call.has_own_lengths() && (!call.counts.empty() || !call.received.empty()))
        return find_idle(call.of_program(), near);
    return programs_.use(call, [&](const programs::entry& e) {
        return e.peers_reach_it == near && e.plan == plan_ && done(e.last_call);
    });
}

// While a call of the same shape is in flight, another one gets its own program.
call_runner::programs::entry& call_runner::program_for(const call_shape& call, bool near) {
    if (programs::entry* idle = find_idle(call, near); idle != nullptr) return *idle;
    const call_shape made = call.of_program();
    programs::entry& added = programs_.add({made, signature_of(call), near, bind(made, near)},
                                           [&](std::uint64_t number) { return done(number); });
    added.plan = plan_;
    with_.running.scratch().keep(with_.o.memory - std::min(programs_.bytes(), with_.o.memory));
    return added;
}

program call_runner::bind(const call_shape& call, bool near) {
    // Parts of uneven calls always use the first plan, by which way_of() has chosen the way of their blocks.
    const binding& first = with_.bound;
    const bool is_first = !plan_ || !call.part_of.empty();
    const binding bound{is_first ? first.plan : *plan_, first.rank, first.callers_rank, first.reproducible,
                        first.rounds_on_wire};
    const capabilities& can = with_.net.can();
    const rule chosen = bound.rule_to_run(call);
    auto [chunks, lanes, full, tail, steps] =
        bound.schedules_of(call, chosen, can, near ? buffer::recv : buffer::scratch, {.slot_bytes = can.slot_bytes});
    const bool placed = can.slots > 0 && uses_lane_slots(chosen);
    if (with_.o.log)
        with_.o.log(log_level::debug,
                    fmt::format("{} of {} {}: {}, {} lanes, {} chunks of {}", name_of(call), bound.elements_of(call),
                                to_string(call.type), describe(bound.plan.machine, chosen.stages), lanes, chunks.chunks,
                                std::max(full.count, tail.count)));
    const std::int64_t bytes = bound.bytes_of(call);
    static const std::int64_t cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
    program made(std::move(full), std::move(tail),
                 {.element = size_of(call.type),
                  .reduce = find_reduce(call.type, call.op, widest_vectors(),
                                        bound.uses_tree(call) ? grouping::by_tree : grouping::in_order),
                  .divisor = call.op == reduce_op::avg ? size() : 1,
                  .type = call.type,
                  .chunks = chunks,
                  .steps = std::move(steps),
                  .lanes = lanes,
                  .placed = placed,
                  .slot_bytes = placed ? can.slot_bytes : 0,
                  .streams = cache > 0 && 2 * bytes > cache,  // written data leave the cache before they are read
                  .owners = bound.meets_wire_types(call) ? owners_of(chosen, call) : 1,
                  .own_lengths = call.has_own_lengths(),
                  .counted_as = with_.running.counts().size_of(name_of(call), bytes),
                  .bytes = bytes},
                 with_.net);
    with_.failure.latch([&] { made.take_slots(); });  // breaks the communicator: other ranks begin the call
    return made;
}

// Returns how many ranks own the elements that this rank owns: several if an outermost stage replicates.
int call_runner::owners_of(const rule& r, const call_shape& call) const {
    const int me = with_.net.rank();
    const composition c = compose_for(me, with_.bound.plan.machine, r.stages, with_.bound.elements_of(call),
                                      quantum_of(size_of(call.type)));
    for (const owned& o : c.owners)
        if (std::ranges::count(o.owners, me) > 0) return static_cast<int>(o.owners.size());
    return 1;
}

// ---- memory

// Lack of memory breaks the communicator, since other ranks begin the call in any case.
void call_runner::lend_scratch(programs::entry& to, std::size_t more) {
    with_.failure.latch([&] {
        if (!to.run.borrow(with_.running.scratch(), more))
            throw memory_error(to.run.scratch_bytes() + more, "scratch memory of " + describe(to.shape));
    });
}

// Returns this rank's multiplied elements: in recv for an allreduce, otherwise in borrowed memory of the program.
const void* call_runner::multiplied(programs::entry& by, const void* send, void* recv, double factor) {
    const std::int64_t count = with_.bound.elements_of(by.shape);
    if (by.shape.what != collective::allreduce) {
        lend_scratch(by, static_cast<std::size_t>(count) * size_of(by.shape.type));
        recv = by.run.more_memory();
    }
    multiply(recv, send, count, by.shape.type, factor);
    return recv;
}

}  // namespace terrace::detail
