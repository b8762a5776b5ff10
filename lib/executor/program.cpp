#include "executor/program.hpp"

#include <algorithm>
#include <cstring>

#include <sched.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "schedule/follow_ups.hpp"

namespace terrace {

namespace {

bool is_local(action a) { return a == action::copy || a == action::reduce; }
bool is_receive(action a) { return a == action::recv || a == action::recv_reduce; }

}  // namespace

compiled::compiled(schedule s) : code(std::move(s)), follows(follow_ups(code)) {
    for (std::uint32_t n = 0; n < code.instrs.size(); ++n) {
        const instr& i = code.instrs[n];
        waits.push_back(i.waits);
        (i.what == action::send ? sends : is_receive(i.what) ? recvs : is_stage(i.what) ? stages : locals).push_back(n);
    }
    brief = sends.empty() && recvs.empty() && stages.size() == 1 && code.instrs[stages.front()].successors == 0;
    const auto copies_all = [&](const instr& i) {
        return i.what == action::copy && i.src.where == buffer::send && i.src.part == range{0, code.count};
    };
    gives_copy = brief && locals.size() == 1 && copies_all(code.instrs[locals.front()]);
}

program::program(schedule full, schedule tail, const shape& s, transport& net)
    : net_(net),
      shape_(s),
      segment_(std::max(round_down(net.segment(), s.element), s.element)),
      full_(std::move(full)),
      tail_(std::move(tail)),
      lanes_(static_cast<std::size_t>(s.lanes)),
      slots_(static_cast<std::size_t>(slots(s.lanes))) {
    const std::size_t instructions = std::max(full_.waits.size(), tail_.waits.size());
    std::uint32_t inputs = 2;
    bool stages_input = false;
    for (const compiled* c : {&full_, &tail_}) {
        for (const instr& i : c->code.instrs) {
            inputs = std::max(inputs, i.sources);
            stages_input |= i.what == action::recv_reduce;
        }
    }
    inputs_.resize(inputs);
    const auto own_scratch = [&](const compiled& c) { return c.code.scratch - elements_in_slot(c.code); };
    scratch_bytes_ =
        static_cast<std::size_t>(round_up(std::max(own_scratch(full_), own_scratch(tail_)), 64)) * s.element;
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(scratch_bytes_ * lanes_.size());
    if (stages_input) staging_ = std::make_unique_for_overwrite<std::byte[]>(segment_ * slots_each_way * lanes_.size());
    int number = 0;
    for (lane& l : lanes_) {
        l.waits.resize(instructions);
        l.segments.resize(instructions);
        l.ready.reserve(instructions);
        for (int i = 0; i < slots_each_way; ++i) {
            l.sends.free.push_back(slot_number(number, i));
            l.recvs.free.push_back(slot_number(number, slots_each_way + i));
        }
        ++number;
    }
}

std::int64_t program::chunks_of(int lane) const noexcept {
    return lane < shape_.chunks.chunks ? div_ceil(shape_.chunks.chunks - lane, shape_.lanes) : 0;
}

void program::start(const void* send, void* recv, const run& as, recorder& events) noexcept {
    run_ = as;
    events_ = &events;
    send_ = const_cast<std::byte*>(static_cast<const std::byte*>(send));
    recv_ = static_cast<std::byte*>(recv);
    lanes_left_ = lanes_used();
    lanes_begun_ = 0;
    gave_way_ = false;
    begin_lane();
}

void program::begin_lane() noexcept {
    const int l = lanes_begun_++;
    start_chunk(lanes_[static_cast<std::size_t>(l)], l);
}

// A chunk begins with a copy. Ranks that share a core would each make those of all lanes before the next one makes its
// first, and links would wait for the last: the first lanes of all ranks go first.
void program::begin_next_lane(bool busy) noexcept {
    if (!gave_way_) {
        sched_yield();
        gave_way_ = true;
    } else if (!busy) {
        gave_way_ = false;
        begin_lane();
    }
}

void program::start_chunk(lane& l, std::int64_t chunk) noexcept {
    for (;; chunk += shape_.lanes) {
        if (chunk >= shape_.chunks.chunks) {
            --lanes_left_;
            l.code = nullptr;
            return;
        }
        l.code = chunk == shape_.chunks.chunks - 1 ? &tail_ : &full_;
        l.chunk = chunk;
        l.held = shape_.in_slot && !net_.lane_ready(l.at.slot);
        if (l.held) return;
        const auto begin = static_cast<std::size_t>(chunk * shape_.chunks.chunk) * shape_.element;
        l.base[static_cast<int>(buffer::send)] = send_ + begin;
        l.base[static_cast<int>(buffer::recv)] = recv_ + begin;
        l.stage = 0;
        if (l.code->brief) return run_briefly(l);
        std::copy(l.code->waits.begin(), l.code->waits.end(), l.waits.begin());
        std::fill(l.segments.begin(), l.segments.end(), 0u);
        l.left = l.code->waits.size();
        l.sends.message = l.recvs.message = l.sends.offset = l.recvs.offset = 0;
        l.ready.clear();
        for (std::uint32_t n : l.code->locals)
            if (l.waits[n] == 0) l.ready.push_back(n);
        run_ready(l);
        if (l.left > 0) return;
        ++l.at.turn;
    }
}

bool program::advance() noexcept {
    bool issued = false;
    for (lane& l : lanes_) {
        if (l.code == nullptr || (l.held && !release(l))) continue;
        if (l.recvs.message < l.code->recvs.size()) issued |= issue(l, true);
        if (l.sends.message < l.code->sends.size()) issued |= issue(l, false);
        issued |= begin_stage(l);
    }
    if (!beginning()) return issued;
    begin_next_lane(issued);
    return true;
}

bool program::release(lane& l) noexcept {
    if (!net_.lane_ready(l.at.slot)) return false;
    start_chunk(l, l.chunk);
    return l.code != nullptr;
}

bool program::begin_stage(lane& l) noexcept {
    if (l.stage_runs || l.stage == l.code->stages.size()) return false;
    if (l.waits[l.code->stages[l.stage]] > 0) return false;
    run_stage(l);
    return true;
}

// All that comes before the stage can run in program order.
void program::run_briefly(lane& l) noexcept {
    for (const std::uint32_t n : l.code->locals) {
        note(l, n, false);
        run_local(l, l.code->code.instrs[n]);
        note(l, n, true);
    }
    l.left = 1;
    run_stage(l);
}

void program::run_stage(lane& l) noexcept {
    const instr& i = l.code->code.instrs[l.code->stages[l.stage]];
    l.stage_runs = true;
    note(l, l.code->stages[l.stage], false);
    // Peers make what lies in a slot slow to read.
    const buffer own = i.sources > 0        ? l.code->code.sources_of(i).front().where
                       : l.code->gives_copy ? buffer::send
                                            : i.src.where;
    stage_call& c = l.running;
    c.what = i.what;
    c.group = &l.code->code.groups[static_cast<std::size_t>(i.peer)];
    c.src = base_of(l, i.src.where);
    c.own = base_of(l, own);
    c.dst = base_of(l, i.dst.where);
    c.sharded = i.sources > 0;
    c.element = shape_.element;
    c.reduce = shape_.reduce;
    c.divisor = divisor_of(i);
    c.last = i.successors == 0 && l.stage + 1 == l.code->stages.size();
    c.streams = shape_.streams;
    c.channel = i.channel;
    c.lane_slot = l.at.slot;
    c.turn = l.at.turn;
    c.number = run_.call;
    c.through = run_.through;
    net_.stage(run_.first_slot + slot_number(lane_index(l), stage_slot), c);
}

// Issues as many segments as there are slots, in program order: a message that waits holds up those behind it.
bool program::issue(lane& l, bool receiving) noexcept {
    cursor& at = receiving ? l.recvs : l.sends;
    const std::vector<std::uint32_t>& messages = receiving ? l.code->recvs : l.code->sends;
    bool issued = false;
    while (at.message < messages.size() && !at.free.empty()) {
        const std::uint32_t n = messages[at.message];
        if (l.waits[n] > 0 || (l.code->follows[n] && at.offset == 0 && at.free.size() < std::size_t{slots_each_way}))
            break;
        const instr& i = l.code->code.instrs[n];
        const operand& what = receiving ? i.dst : i.src;
        const std::size_t total = static_cast<std::size_t>(what.part.count()) * shape_.element;
        const std::size_t segment = segment_of(total), bytes = std::min(segment, total - at.offset);
        if (at.offset == 0) {
            l.segments[n] = static_cast<std::uint32_t>(div_ceil(total, segment));
            note(l, n, false);
        }
        const int number = at.free.back();
        at.free.pop_back();
        slots_[static_cast<std::size_t>(number)] = {n, at.offset, bytes};
        std::byte* memory = address(l, what) + at.offset;
        const int tag = (i.channel * shape_.lanes + lane_index(l)) * run_.window +
                        static_cast<int>(run_.call % static_cast<std::uint64_t>(run_.window));
        at.offset += bytes;
        if (at.offset == total) {
            ++at.message;
            at.offset = 0;
        }
        if (i.what == action::recv_reduce) memory = staging(l, number);
        if (receiving) net_.recv(run_.first_slot + number, i.peer, tag, memory, bytes);
        else net_.send(run_.first_slot + number, i.peer, tag, memory, bytes);
        issued = true;
    }
    return issued;
}

// Segments of one message are about equal, so that none of them is a straggler.
std::size_t program::segment_of(std::size_t bytes) const noexcept {
    if (bytes <= segment_) return bytes;
    const std::size_t pieces = div_ceil(bytes, segment_);
    return round_up(div_ceil(bytes, pieces), shape_.element);
}

void program::complete_slot(int of_transport) noexcept {
    const int number = of_transport - run_.first_slot;
    const slot s = slots_[static_cast<std::size_t>(number)];
    lane& l = lanes_[static_cast<std::size_t>(number / slots_per_lane)];
    if (number == slot_number(lane_index(l), stage_slot)) {
        l.stage_runs = false;
        return settle(l, l.code->stages[l.stage++]);
    }
    const instr& i = l.code->code.instrs[s.instruction];
    if (i.what == action::recv_reduce) {
        const void* inputs[2] = {address(l, i.src) + s.offset, staging(l, number)};
        shape_.reduce(address(l, i.dst) + s.offset, inputs, 2, static_cast<std::int64_t>(s.bytes / shape_.element),
                      divisor_of(i));
    }
    (i.what == action::send ? l.sends : l.recvs).free.push_back(number);
    if (--l.segments[s.instruction] == 0) settle(l, s.instruction);
}

// Completes an instruction and what follows from that at once.
void program::settle(lane& l, std::uint32_t instruction) noexcept {
    complete(l, instruction);
    run_ready(l);
    if (l.left > 0) return;
    ++l.at.turn;
    start_chunk(l, l.chunk + shape_.lanes);
}

void program::complete(lane& l, std::uint32_t instruction) noexcept {
    --l.left;
    note(l, instruction, true);
    const schedule& code = l.code->code;
    for (std::uint32_t next : code.successors_of(code.instrs[instruction])) {
        if (--l.waits[next] == 0 && is_local(code.instrs[next].what)) l.ready.push_back(next);
    }
}

void program::run_ready(lane& l) noexcept {
    while (!l.ready.empty()) {
        const std::uint32_t n = l.ready.back();
        l.ready.pop_back();
        note(l, n, false);
        run_local(l, l.code->code.instrs[n]);
        complete(l, n);
    }
}

void program::run_local(lane& l, const instr& i) noexcept {
    std::byte* to = address(l, i.dst);
    const auto count = i.dst.part.count();
    if (i.what == action::copy) {
        const std::byte* from = address(l, i.src);
        if (from != to) std::memcpy(to, from, static_cast<std::size_t>(count) * shape_.element);
        return;
    }
    int k = 0;
    for (const operand& o : l.code->code.sources_of(i)) inputs_[static_cast<std::size_t>(k++)] = address(l, o);
    shape_.reduce(to, inputs_.data(), k, count, divisor_of(i));
}

std::int64_t program::elements_in_slot(const schedule& s) const noexcept {
    return shape_.in_slot && s.home.where == buffer::scratch ? s.count : 0;
}

std::byte* program::base_of(const lane& l, buffer where) const noexcept {
    if (where != buffer::scratch) return l.base[static_cast<int>(where)];
    const std::int64_t in_slot = elements_in_slot(l.code->code);
    return in_slot > 0 ? net_.lane_memory(l.at.slot, static_cast<std::size_t>(in_slot) * shape_.element)
                       : own_scratch(l);
}

std::byte* program::address(const lane& l, const operand& o) const noexcept {
    const std::int64_t in_slot = o.where == buffer::scratch ? elements_in_slot(l.code->code) : 0;
    const auto from = [&](std::byte* base, std::int64_t element) {
        return base + static_cast<std::size_t>(element) * shape_.element;
    };
    if (in_slot > 0 && o.part.begin >= in_slot) return from(own_scratch(l), o.part.begin - in_slot);
    return from(base_of(l, o.where), o.part.begin);
}

// What runs at once holds nobody up: only traces show it.
void program::note(const lane& l, std::uint32_t instruction, bool ends) noexcept {
    const instr& i = l.code->code.instrs[instruction];
    if (is_local(i.what) && !events_->keeps_everything()) return;
    const phase& p = l.code->code.phases[i.phase];
    events_->record([&](event& e) {
        e.call = run_.call;
        e.chunk = l.chunk;
        e.step = i.step;
        e.peer = is_stage(i.what) ? -1 : i.peer;
        e.stage = static_cast<std::int16_t>(p.stage);
        e.lane = static_cast<std::int16_t>(lane_index(l));
        e.what = i.what;
        e.down = p.down;
        e.ends = ends;
    });
}

std::vector<program::wait> program::waits() const {
    std::vector<wait> found;
    for (const lane& l : lanes_) {
        if (l.code == nullptr) continue;
        if (l.held) {
            for (int peer : net_.lane_readers(l.at.slot))
                found.push_back({0, false, 0, l.chunk, "memory read by", peer});
            continue;
        }
        const auto add = [&](std::uint32_t n, int peer) {
            const instr& i = l.code->code.instrs[n];
            const phase& p = l.code->code.phases[i.phase];
            found.push_back({p.stage, p.down, i.step, l.chunk, to_string(i.what), peer});
        };
        for (std::uint32_t n = 0; n < l.segments.size(); ++n)
            if (l.segments[n] > 0) add(n, l.code->code.instrs[n].peer);
        if (l.stage_runs)
            for (int peer : net_.missing(run_.first_slot + slot_number(lane_index(l), stage_slot)))
                add(l.code->stages[l.stage], peer);
    }
    return found;
}

}  // namespace terrace
