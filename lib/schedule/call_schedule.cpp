#include "schedule/call_schedule.hpp"

#include <algorithm>
#include <utility>

#include "schedule/exchange.hpp"

namespace terrace::detail {

namespace {

block_layout lay_out(const hierarchy& machine, std::span<const stage> stages, const collective_call& chunk, int rank) {
    const auto element = static_cast<std::int64_t>(chunk.element);
    std::vector<stage> as_they_are(stages.begin(), stages.end());
    for (stage& s : as_they_are)
        if (!chunk.rounds_on_wire || wire_ratio(s.wire, element) >= 1) s.wire = wire_type::exact;
    stages = as_they_are;
    if (row_of(chunk.what).exchange) return compose_exchange(machine, stages, chunk.what);
    if (row_of(chunk.what).blocks) {
        std::vector<std::int64_t> counts;
        for (const range block : chunk.blocks) counts.push_back(block.count());
        return compose_blocks(machine, stages, counts, chunk.tree);
    }
    const int root = row_of(chunk.what).has_root() ? chunk.root : -1;
    const std::int64_t quantum = quantum_of(chunk.element);
    return {rank == call_layout::all_ranks ? compose(machine, stages, chunk.count, quantum, root, chunk.tree)
                                           : compose_for(rank, machine, stages, chunk.count, quantum, root, chunk.tree),
            {}};
}

}  // namespace

call_layout::call_layout(const hierarchy& machine, std::span<const stage> stages, collective_call chunk, int rank)
    : call_(std::move(chunk)), layout_(lay_out(machine, stages, call_, rank)) {
    for (const range block : call_.blocks) begins_.push_back(block.begin);
    if (row_of(call_.what).exchange) shape_ = stage_tree(machine, stages);
}

schedule call_layout::generated_for(int rank) const {
    if (row_of(call_.what).exchange) return generate_exchange(layout_, shape_, call_, rank);
    return row_of(call_.what).blocks ? generate(layout_, call_.what, rank, begins_)
                                     : generate(layout_.c, call_.what, rank);
}

// If a rank's schedule has stages of the transport, the vector's home is where peers can access it; ranks may differ.
schedule call_layout::schedule_of(int rank, const capabilities& can, buffer home) const {
    const auto bytes = static_cast<std::size_t>(call_.elements()) * call_.element;
    const bool fits = can.slot_bytes == 0 || bytes <= can.slot_bytes;
    if (fits && row_of(call_.what).blocks) return lower(generated_for(rank), can);
    if (fits && runs_stages(layout_.c, rank, can)) return lower(generate(layout_.c, call_.what, rank, can, home), can);
    return lower(generated_for(rank), {.slots = can.slots, .mpi_stages = can.mpi_stages, .mpi_groups = can.mpi_groups});
}

call_schedules schedules_of(const hierarchy& machine, const rule& chosen, const collective_call& call, int rank,
                            const capabilities& can, buffer home, const chunk_limits& limits) {
    call_schedules made{.chunks = slice_call(call, chosen, machine.ranks(), limits), .full = {}, .tail = {}};
    made.lanes = static_cast<int>(std::min<std::int64_t>(chosen.lanes, made.chunks.chunks));
    const auto chunk_of = [&](bool last) {
        return call.counts_given ? call.chunk_of(made.chunks.chunks, last)
                                 : call.chunk(last ? made.chunks.tail : made.chunks.chunk);
    };
    const auto schedule_of = [&](const collective_call& chunk) {
        return call_layout(machine, chosen.stages, chunk, rank).schedule_of(rank, can, home);
    };
    made.tail = schedule_of(chunk_of(true));
    if (made.chunks.chunks == 1) return made;
    const collective_call first = chunk_of(false);
    made.full = schedule_of(first);
    if (call.counts_given) made.steps = {first, rank};
    return made;
}

}  // namespace terrace::detail
