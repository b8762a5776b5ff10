#include "executor/stream_program.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "kernels/gpu_reduce.hpp"

namespace terrace::detail {

namespace {

constexpr int line = 64;  // elements; staged messages then begin on cache lines for every type

bool communicates(action a) { return a != action::copy && a != action::reduce; }

// Returns the pipeline slot of a phase: up from the innermost stage, then down to it.
int slot_of(const phase& p, int stages) { return p.down ? 2 * stages - 1 - p.stage : p.stage; }

call_position position_of(const schedule& s, const instr& i, std::int64_t chunk) {
    const phase& p = s.phases[i.phase];
    return {.stage = p.stage, .down = p.down, .step = i.step, .chunk = chunk};
}

// Gives all stages of parallel routes the number of the innermost one, since the route of the first message of a step
// may differ between ranks.
std::vector<phase> without_routes(std::vector<phase> phases) {
    std::vector<phase*> side_by_side;
    for (phase& p : phases)
        if (p.route > 0) side_by_side.push_back(&p);
    const auto first = std::ranges::min_element(side_by_side, {}, &phase::stage);
    for (phase* p : side_by_side) p->stage = (*first)->stage;
    return phases;
}

// Returns, by instruction, true if the instruction waits for messages of its own step.
std::vector<bool> followers(const schedule& s) {
    std::vector<bool> after(s.instrs.size());
    for (std::size_t n = 0; n < s.instrs.size(); ++n) {
        const instr& i = s.instrs[n];
        if (!after[n] && !communicates(i.what)) continue;
        for (const std::uint32_t next : s.successors_of(i)) {
            if (s.instrs[next].step != i.step) continue;
            if (communicates(s.instrs[next].what))
                throw plan_error(
                    "stages: a message waits for another of its own step, which no group of messages can do");
            after[next] = true;
        }
    }
    return after;
}

}  // namespace

queued::queued(schedule s, const std::vector<std::string>& over_mpi)
    : code(std::move(s)), first(2 * over_mpi.size() + 1) {
    const int stages = static_cast<int>(over_mpi.size());
    code.phases = without_routes(std::move(code.phases));
    const std::vector<bool> after = followers(code);
    const auto size = static_cast<std::uint32_t>(code.instrs.size());
    int slot = 0;
    const auto begin_slots_up_to = [&](int last) {
        for (; slot < last; ++slot) first[static_cast<std::size_t>(slot) + 1] = entries.size();
    };
    for (std::uint32_t begin = 0, end = 0; begin < size; begin = end) {
        const instr& head = code.instrs[begin];
        while (end < size && code.instrs[end].step == head.step) ++end;
        begin_slots_up_to(std::max(slot, slot_of(code.phases[head.phase], stages)));
        const auto add = [&](kind what, auto takes) {
            for (std::uint32_t n = begin; n < end; ++n)
                if (takes(code.instrs[n].what, after[n])) entries.push_back({what, n});
        };
        add(kind::local, [](action a, bool waits) { return !communicates(a) && !waits; });
        const std::size_t opening = entries.size();
        entries.push_back({kind::open, begin});
        add(kind::message, [](action a, bool) { return communicates(a) && !is_stage(a); });
        if (entries.size() == opening + 1) {
            entries.pop_back();
        } else {
            std::int64_t used = 0, passed = 0;
            const std::size_t closing = entries.size();
            entries.push_back({kind::close, begin});
            for (std::size_t e = opening + 1; e < closing; ++e) {
                const instr& i = code.instrs[entries[e].instruction];
                passed += round_up((i.what == action::send ? i.src : i.dst).part.count(), line);
                if (i.what != action::recv_reduce) continue;
                entries[e].staging = static_cast<std::size_t>(used);
                entries.push_back({kind::received, entries[e].instruction, entries[e].staging});
                used += round_up(i.dst.part.count(), line);
            }
            entries[opening].instruction = entries[opening + 1].instruction;
            staging = std::max(staging, used);
            if (!over_mpi[at(code.phases[head.phase].stage)].empty()) hosted = std::max(hosted, passed);
        }
        add(kind::stage, [](action a, bool) { return is_stage(a); });
        add(kind::local, [](action a, bool waits) { return !communicates(a) && waits; });
    }
    begin_slots_up_to(2 * stages);
}

stream_program::stream_program(schedule full, schedule tail, const shape& s, stream_transport& net)
    : net_(net),
      shape_(s),
      element_(size_of(s.type)),
      full_(std::move(full), s.over_mpi),
      tail_(std::move(tail), s.over_mpi),
      begun_(static_cast<std::size_t>(s.lanes)) {
    memory_.scratch_bytes =
        element_ * static_cast<std::size_t>(round_up(std::max(full_.code.scratch, tail_.code.scratch), line));
    memory_.device_bytes =
        memory_.scratch_bytes + element_ * static_cast<std::size_t>(std::max(full_.staging, tail_.staging));
    memory_.host_bytes = element_ * static_cast<std::size_t>(std::max(full_.hosted, tail_.hosted));
    std::uint32_t inputs = 2;
    for (const queued* q : {&full_, &tail_})
        for (const instr& i : q->code.instrs) inputs = std::max(inputs, i.sources);
    if (inputs > most_gpu_sources)
        throw plan_error(
            fmt::format("stages: one of {} ranks reduces {} buffers at once, but a GPU takes {}; split the "
                        "stage, or use ring or halving there",
                        inputs, inputs, most_gpu_sources));
    inputs_.resize(inputs);
    if (memory_.device_bytes > 0) memory_.device = net.allocate(memory_.device_bytes * at(s.lanes));
    if (memory_.host_bytes > 0) memory_.host = net.allocate_host(memory_.host_bytes * at(s.lanes));
}

void stream_program::enqueue(const void* send, void* recv) noexcept {
    const chunk_order order{shape_.chunks.chunks, shape_.lanes};
    const std::int64_t slots = 2 * shape_.stages();
    const auto begun = [&](std::int64_t chunk) -> std::int64_t& { return begun_[at(order.lane_of(chunk))]; };
    std::int64_t oldest = 0, next = 0;
    for (std::int64_t wave = 0; order.exists(oldest); ++wave) {
        if (order.exists(next) && next - oldest < shape_.lanes) begun(next++) = wave;
        for (std::int64_t chunk = oldest; chunk < next; ++chunk)
            run_slot(chunk, static_cast<int>(wave - begun(chunk)), send, recv);
        if (wave - begun(oldest) == slots - 1) ++oldest;
    }
}

void stream_program::run_slot(std::int64_t chunk, int pipeline_slot, const void* send, void* recv) noexcept {
    const chunk_order order{shape_.chunks.chunks, shape_.lanes};
    const queued& q = order.is_tail(chunk) ? tail_ : full_;
    const auto begin = static_cast<std::size_t>(chunk * shape_.chunks.chunk) * element_;
    chunk_ = {chunk, const_cast<std::byte*>(static_cast<const std::byte*>(send)) + begin,
              static_cast<std::byte*>(recv) + begin};
    const int queue = order.lane_of(chunk);
    for (std::size_t e = q.first[at(pipeline_slot)]; e < q.first[at(pipeline_slot) + 1]; ++e)
        run(q, q.entries[e], chunk, queue);
}

void stream_program::run(const queued& q, const queued::entry& e, std::int64_t chunk, int queue) noexcept {
    const instr& i = q.code.instrs[e.instruction];
    const int divisor = i.completes ? shape_.divisor : 1;
    const auto reduce = [&](std::size_t inputs) {
        net_.reduce(queue, address(i.dst, queue), std::span(inputs_).first(inputs), i.dst.part.count(), shape_.type,
                    shape_.op, divisor);
    };
    switch (e.what) {
        case queued::kind::open: return open(position_of(q.code, i, chunk), queue);
        case queued::kind::close: return open_->close();
        case queued::kind::message:
            if (i.what == action::send) return open_->send(i.peer, address(i.src, queue), bytes_of(i.src.part));
            return open_->recv(i.peer, i.what == action::recv ? address(i.dst, queue) : staging(e, queue),
                               bytes_of(i.dst.part));
        case queued::kind::stage: return run_stage(q, i, chunk, queue);
        case queued::kind::received:
            inputs_[0] = address(i.src, queue);
            inputs_[1] = staging(e, queue);
            return reduce(2);
        case queued::kind::local: break;
    }
    if (i.what == action::copy) {
        std::byte *to = address(i.dst, queue), *from = address(i.src, queue);
        if (from != to) net_.copy(queue, to, from, bytes_of(i.dst.part));
        return;
    }
    std::size_t k = 0;
    for (const operand& o : q.code.sources_of(i)) inputs_[k++] = address(o, queue);
    reduce(k);
}

void stream_program::run_stage(const queued& q, const instr& i, std::int64_t chunk, int queue) noexcept {
    const auto first = [&](buffer where) { return address({where, {0, 0}}, queue); };
    const buffer own = i.sources > 0 ? q.code.sources_of(i).front().where : i.src.where;
    net_.stage(queue, position_of(q.code, i, chunk),
               {.what = i.what,
                .group = &q.code.groups[static_cast<std::size_t>(i.peer)],
                .src = first(i.src.where),
                .own = first(own),
                .dst = first(i.dst.where),
                .sharded = i.sources > 0,
                .element = element_,
                .divisor = i.completes ? shape_.divisor : 1,
                .type = shape_.type,
                .op = shape_.op});
}

std::byte* stream_program::address(const operand& o, int queue) const noexcept {
    std::byte* base = o.where == buffer::scratch ? memory_.scratch(queue)
                      : o.where == buffer::send  ? chunk_.send
                                                 : chunk_.recv;
    const bool is_tail = chunk_.number + 1 == shape_.chunks.chunks;
    return base + static_cast<std::size_t>(o.part.begin + shape_.steps.of(o, chunk_.number, is_tail)) * element_;
}

}  // namespace terrace::detail
