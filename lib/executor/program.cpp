#include "executor/program.hpp"

#include <algorithm>
#include <cstring>

#include <terrace/error.hpp>

#include "base/partition.hpp"

namespace terrace {

namespace {

bool is_receive(action a) { return a == action::recv || a == action::recv_reduce; }

}  // namespace

compiled::compiled(schedule s) : code(std::move(s)) {
    for (std::uint32_t n = 0; n < code.instrs.size(); ++n) {
        const instr& i = code.instrs[n];
        waits.push_back(i.waits);
        (i.what == action::send    ? sends
         : is_receive(i.what) ? recvs
         : is_stage(i.what)   ? stages
                              : locals)
            .push_back(n);
    }
}

program::program(schedule full, schedule tail, const shape& s, transport& net, int first_slot)
    : net_(net),
      shape_(s),
      first_slot_(first_slot),
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
    if (stages_input)
        staging_ = std::make_unique_for_overwrite<std::byte[]>(segment_ * slots_each_way * lanes_.size());
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

void program::start(const void* send, void* recv, std::span<const place> places) noexcept {
    for (std::size_t l = 0; l < places.size(); ++l) lanes_[l].at = places[l];
    send_ = const_cast<std::byte*>(static_cast<const std::byte*>(send));
    recv_ = static_cast<std::byte*>(recv);
    lanes_left_ = static_cast<int>(std::min<std::int64_t>(shape_.lanes, shape_.chunks.chunks));
    // Lanes may end at once, where there is nothing to send.
    for (int l = 0, starting = lanes_left_; l < starting; ++l) start_chunk(lanes_[static_cast<std::size_t>(l)], l);
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
        const auto begin = static_cast<std::size_t>(chunk * shape_.chunks.chunk) * shape_.element;
        l.base[static_cast<int>(buffer::send)] = send_ + begin;
        l.base[static_cast<int>(buffer::recv)] = recv_ + begin;
        std::copy(l.code->waits.begin(), l.code->waits.end(), l.waits.begin());
        std::fill(l.segments.begin(), l.segments.end(), 0u);
        l.left = l.code->waits.size();
        l.sends.message = l.recvs.message = l.sends.offset = l.recvs.offset = 0;
        l.stage = 0;
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
        if (l.code == nullptr) continue;
        issued |= issue(l, true);
        issued |= issue(l, false);
        issued |= begin_stage(l);
    }
    return issued;
}

bool program::begin_stage(lane& l) noexcept {
    if (l.stage_runs || l.stage == l.code->stages.size()) return false;
    const instr& i = l.code->code.instrs[l.code->stages[l.stage]];
    if (l.waits[l.code->stages[l.stage]] > 0) return false;
    l.stage_runs = true;
    const auto first = [&](buffer where) { return address(l, {where, {0, 0}}); };
    const buffer own = i.sources > 0 ? l.code->code.sources_of(i).front().where : i.src.where;
    net_.stage(slot_number(lane_index(l), stage_slot),
               {.what = i.what,
                .group = &l.code->code.groups[static_cast<std::size_t>(i.peer)],
                .src = first(i.src.where),
                .own = first(own),
                .dst = first(i.dst.where),
                .element = shape_.element,
                .reduce = shape_.reduce,
                .divisor = divisor_of(i),
                .channel = i.channel,
                .lane_slot = l.at.slot,
                .turn = l.at.turn});
    return true;
}

// Issues as many segments as there are slots, in program order: a message that waits holds up those behind it.
bool program::issue(lane& l, bool receiving) noexcept {
    cursor& at = receiving ? l.recvs : l.sends;
    const std::vector<std::uint32_t>& messages = receiving ? l.code->recvs : l.code->sends;
    bool issued = false;
    while (at.message < messages.size() && !at.free.empty()) {
        const std::uint32_t n = messages[at.message];
        if (l.waits[n] > 0) break;
        const instr& i = l.code->code.instrs[n];
        const operand& what = receiving ? i.dst : i.src;
        const std::size_t total = static_cast<std::size_t>(what.part.count()) * shape_.element;
        const std::size_t segment = segment_of(total), bytes = std::min(segment, total - at.offset);
        if (at.offset == 0) l.segments[n] = static_cast<std::uint32_t>(div_ceil(total, segment));
        const int number = at.free.back();
        at.free.pop_back();
        slots_[static_cast<std::size_t>(number - first_slot_)] = {n, at.offset, bytes};
        std::byte* memory = address(l, what) + at.offset;
        const int tag = i.channel * shape_.lanes + lane_index(l);
        at.offset += bytes;
        if (at.offset == total) {
            ++at.message;
            at.offset = 0;
        }
        if (i.what == action::recv_reduce) memory = staging(l, number);
        if (receiving) net_.recv(number, i.peer, tag, memory, bytes);
        else net_.send(number, i.peer, tag, memory, bytes);
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

void program::complete_slot(int number) noexcept {
    const slot s = slots_[static_cast<std::size_t>(number - first_slot_)];
    lane& l = lanes_[static_cast<std::size_t>((number - first_slot_) / slots_per_lane)];
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
    const schedule& code = l.code->code;
    for (std::uint32_t next : code.successors_of(code.instrs[instruction])) {
        const action what = code.instrs[next].what;
        if (--l.waits[next] == 0 && (what == action::copy || what == action::reduce)) l.ready.push_back(next);
    }
}

void program::run_ready(lane& l) noexcept {
    while (!l.ready.empty()) {
        const std::uint32_t n = l.ready.back();
        l.ready.pop_back();
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
    return shape_.windowed && s.home.where == buffer::scratch ? s.count : 0;
}

std::byte* program::address(const lane& l, operand o) const noexcept {
    std::int64_t element = o.part.begin;
    std::byte* base = l.base[static_cast<int>(o.where)];
    if (o.where == buffer::scratch) {
        const std::int64_t in_slot = elements_in_slot(l.code->code);
        base = element < in_slot ? net_.lane_memory(l.at.slot).data()
                                 : scratch_.get() + scratch_bytes_ * static_cast<std::size_t>(lane_index(l));
        if (element >= in_slot) element -= in_slot;
    }
    return base + static_cast<std::size_t>(element) * shape_.element;
}

void run_to_end(program& p, transport& net, const std::function<void()>& when_idle) {
    constexpr int looks = 16;  // before an idle rank gives its core away
    int idle = 0;
    while (!p.done()) {
        bool moved = p.advance();
        for (int slot : net.poll()) {
            p.complete_slot(slot);
            moved = true;
        }
        if (net.fault()) {
            const transport_fault& f = *net.fault();
            throw transport_error(f.library, f.call, f.code, f.message);
        }
        idle = moved ? 0 : idle + 1;
        if (idle <= looks) continue;
        if (when_idle) when_idle();
        net.idle();
    }
}

}  // namespace terrace
