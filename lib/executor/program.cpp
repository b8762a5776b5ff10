#include "executor/program.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "kernels/wire.hpp"
#include "schedule/lone_stage.hpp"

namespace terrace::detail {

namespace {

// Division of a message into segments of about equal length, so no segment is late.
struct cut {
    cut(std::size_t message, std::size_t most_segment, std::size_t element) noexcept
        : message(message), segment(message) {
        if (message <= most_segment) return;
        segments = static_cast<std::uint32_t>(div_ceil(message, most_segment));
        segment = round_up(div_ceil(message, segments), element);
        segments = static_cast<std::uint32_t>(div_ceil(message, segment));
    }

    std::size_t message;         // bytes
    std::size_t segment;         // bytes of all segments but the last
    std::uint32_t segments = 1;  // may be fewer than the length requires, since segments hold whole elements
};

// Elements of an operand in the buffers of a call.
struct piece {
    std::byte* first;
    std::int64_t count;
};

// Returns the elements of scratch that lie in a lane slot.
std::int64_t elements_in_slot(const program::shape& shape, const schedule& s) noexcept {
    const bool fits = static_cast<std::size_t>(s.count) * shape.element <= shape.slot_bytes;
    return fits && s.home.where == buffer::scratch ? s.count : 0;
}

}  // namespace

compiled_schedule::compiled_schedule(schedule s) : code(std::move(s)), order(code) {
    for (const instr& i : code.instrs) {
        most_sources = std::max(most_sources, i.sources);
        needs_staging |= i.what == action::recv_reduce;
    }
    brief = is_lone_stage(order);
    gives_copy = detail::gives_copy(code, order);
    takes_pieces = detail::takes_pieces(code, order);
}

// Executes on the transport the instructions that a lane_machine issues.
class program::port {
public:
    // The thread that polls makes a copy before it does anything else.
    static constexpr bool locals_take_time = false;

    port(program& of, lane& l) noexcept : p_(of), l_(l) {}

    const lane_code* begin_chunk(std::int64_t chunk) noexcept {
        l_.code = l_.machine.order().is_tail(chunk) ? &p_.code_.tail : &p_.code_.full;
        node_stage_runner* const node = p_.net_.node();
        l_.held = p_.shape_.placed && node != nullptr && !node->lane_ready(l_.slot.number);
        if (l_.held) return nullptr;
        const std::size_t begin = l_.memory.bytes_of(chunk * p_.shape_.chunks.chunk);
        const std::int64_t in_slot = elements_in_slot(p_.shape_, l_.code->code);
        std::byte* slot = in_slot > 0 ? node->lane_memory(l_.slot.number, l_.memory.bytes_of(in_slot)) : nullptr;
        l_.memory.begin_chunk(p_.buffers_.send() + begin, p_.buffers_.recv() + begin, slot, in_slot);
        std::byte* errors = p_.buffers_.rounding_errors();
        l_.rounding_errors = errors != nullptr ? errors + begin : nullptr;
        if (!l_.code->brief) return &l_.code->order;
        run_briefly();
        return nullptr;
    }

    void end_chunk() noexcept { ++l_.slot.turn; }
    void end_lane() noexcept { --p_.call_.lanes_left; }

    std::uint32_t segments(std::uint32_t n) noexcept {
        record(n, false);
        return cut_of(l_.instruction(n)).segments;
    }

    void send(std::uint32_t n, std::uint32_t segment) noexcept {
        const instr& i = l_.instruction(n);
        const int number = l_.sends.acquire();
        const request& r = assign(number, n, segment);
        p_.call_.events->note_message(i.peer, true, r.bytes, p_.shape_.counted_as);
        p_.net_.send(p_.request_of(l_, number), i.peer, tag_of(i), piece_of(i.src).first + r.offset,
                     p_.buffers_.filled_bytes(i.src.part.begin, p_.shape_.element, r.offset, r.bytes));
    }

    void receive(std::uint32_t n, std::uint32_t segment) noexcept {
        const instr& i = l_.instruction(n);
        const int number = l_.receives.acquire();
        const request& r = assign(number, n, segment);
        std::byte* to = i.what == action::recv_reduce ? staging(number) : piece_of(i.dst).first + r.offset;
        p_.net_.recv(p_.request_of(l_, number), i.peer, tag_of(i), to, r.bytes);
    }

    void run_briefly() noexcept {
        for (const std::uint32_t n : l_.code->order.locals) {
            run_local(n);
            record(n, true);
        }
        l_.brief = true;
        start_stage(l_.code->order.stages.front());
    }

    void start_stage(std::uint32_t n) noexcept {
        const instr& i = l_.instruction(n);
        l_.stage = n;
        record(n, false);
        stage_call& c = l_.running;
        c.what = i.what;
        c.by = i.by;
        c.group = &l_.code->code.groups[static_cast<std::size_t>(i.peer)];
        c.src = l_.memory.first(i.src.where);
        c.own = l_.memory.first(own_part_of(l_.code->code, i, l_.code->gives_copy));
        c.pieces = p_.buffers_.pieces();
        c.dst = l_.memory.first(i.dst.where);
        c.sharded = i.sources > 0;
        c.element = p_.shape_.element;
        c.reduce = p_.shape_.reduce;
        c.divisor = i.completes ? p_.shape_.divisor : 1;
        c.last = i.successors == 0 && n == l_.code->order.stages.back();
        c.streams = p_.shape_.streams;
        c.channel = i.channel;
        c.lane_slot = l_.slot.number;
        c.turn = l_.slot.turn;
        c.number = p_.call_.in.number;
        c.through = p_.call_.in.through;
        c.history = static_cast<std::uint16_t>(p_.call_.in.history);
        p_.net_.stage(p_.request_of(l_, stage_request), c);
    }

    void complete_stage() noexcept {
        if (!l_.brief) return l_.machine.complete(*this, l_.stage);
        record(l_.stage, true);
        l_.brief = false;
        end_chunk();
        l_.machine.run_from(*this, l_.machine.order().next(l_.machine.chunk()));
    }

    void run_local(std::uint32_t n) noexcept {
        record(n, false);
        const instr& i = l_.instruction(n);
        if (i.what == action::copy) {
            if (!p_.buffers_.pieces().empty() && i.src.where == buffer::send)
                return p_.buffers_.copy_given_pieces(l_.memory.address(i.dst), i.src.part, p_.shape_.element);
            const piece from = piece_of(i.src), to = piece_of(i.dst);
            if (from.first != to.first && to.count > 0) std::memcpy(to.first, from.first, l_.memory.bytes_of(to.count));
            return;
        }
        std::byte* to = l_.memory.address(i.dst);
        if (i.what == action::encode) {
            encode(to, l_.memory.address(i.src), i.src.part.count(), p_.shape_.type, i.wire);
            if (l_.rounding_errors != nullptr) keep_rounding_errors(i);
            return;
        }
        if (i.what == action::decode)
            return decode(to, l_.memory.address(i.src), i.dst.part.count(), p_.shape_.type, i.wire);
        int k = 0;
        for (const operand& o : l_.code->code.sources_of(i))
            p_.inputs_[static_cast<std::size_t>(k++)] = l_.memory.address(o);
        reduce(to, k, i.dst.part.count(), i);
    }

    void completed(std::uint32_t n) noexcept { record(n, true); }

    /// Handles the completion of the request with this number in the lane.
    void complete_request(int number) noexcept {
        const request& r = l_.requests[static_cast<std::size_t>(number)];
        const instr& i = l_.instruction(r.instruction);
        if (i.what != action::send) p_.call_.events->note_message(i.peer, false, r.bytes, p_.shape_.counted_as);
        if (i.what == action::recv_reduce) {
            p_.inputs_[0] = l_.memory.address(i.src) + r.offset;
            p_.inputs_[1] = staging(number);
            reduce(l_.memory.address(i.dst) + r.offset, 2, static_cast<std::int64_t>(r.bytes / p_.shape_.element), i);
        }
        (i.what == action::send ? l_.sends : l_.receives).release(number);
        l_.machine.complete(*this, r.instruction);
    }

private:
    // Adds the rounding errors of an encoding of a part of the vector. Every domain encodes results, so only their
    // owners keep errors.
    void keep_rounding_errors(const instr& encoding) const noexcept {
        const schedule& s = l_.code->code;
        const range part = encoding.src.part;
        const auto keep = [&](range some, double weight) {
            if (some.begin < some.end)
                add_rounding_errors(l_.rounding_errors + l_.memory.bytes_of(part.begin),
                                    l_.memory.address(encoding.src), l_.memory.address(encoding.dst),
                                    {some.begin - part.begin, some.end - part.begin}, weight, p_.shape_.type,
                                    encoding.wire);
        };
        if (!s.phases[encoding.phase].down) return keep(part, 1);
        for (const range& own : s.owned)
            keep({std::max(part.begin, own.begin), std::min(part.end, own.end)}, 1.0 / p_.shape_.owners);
    }

    void reduce(std::byte* to, int sources, std::int64_t count, const instr& i) noexcept {
        p_.shape_.reduce(to, p_.inputs_.data(), sources, count, i.completes ? p_.shape_.divisor : 1);
    }

    piece piece_of(const operand& o) const noexcept {
        if (!p_.shape_.has_places()) return {l_.memory.address(o), o.part.count()};
        const bool sends = o.where == buffer::send;
        const std::int64_t chunk = l_.machine.chunk();
        const bool is_tail = l_.machine.order().is_tail(chunk);
        if (!p_.shape_.own_lengths)
            return {l_.memory.address(o) + l_.memory.bytes_of(p_.shape_.steps.of(o, chunk, is_tail)), o.part.count()};
        const range part = p_.buffers_.blocks_of(sends).part_of(o.part, chunk * p_.shape_.chunks.chunk, is_tail);
        return {(sends ? p_.buffers_.send() : p_.buffers_.recv()) + l_.memory.bytes_of(part.begin), part.count()};
    }

    std::size_t message_bytes(const instr& i) const noexcept {
        const std::int64_t count = piece_of(i.what == action::send ? i.src : i.dst).count;
        return i.wire == wire_type::exact ? static_cast<std::size_t>(count) * p_.shape_.element
                                          : static_cast<std::size_t>(wire_bytes(i.wire, count));
    }

    // Records an event. Local instructions delay no other rank, so only traces show them.
    void record(std::uint32_t n, bool ends) noexcept {
        const instr& i = l_.instruction(n);
        if (l_.code->order.kinds[n] == lane_code::kind::local && !p_.call_.events->keeps_everything()) return;
        const phase& p = l_.code->code.phases[i.phase];
        p_.call_.events->record([&](event& e) {
            e.call = p_.call_.in.number;
            e.chunk = l_.machine.chunk();
            e.step = i.step;
            e.peer = is_stage(i.what) ? -1 : i.peer;
            e.stage = static_cast<std::int16_t>(p.stage);
            e.lane = static_cast<std::int16_t>(l_.number);
            e.what = i.what;
            e.down = p.down;
            e.ends = ends;
        });
    }

    cut cut_of(const instr& i) const noexcept {
        return {message_bytes(i), p_.most_segment_, i.wire == wire_type::exact ? p_.shape_.element : 1};
    }

    const request& assign(int number, std::uint32_t n, std::uint32_t segment) noexcept {
        const cut c = cut_of(l_.instruction(n));
        const std::size_t offset = segment * c.segment;
        return l_.requests[static_cast<std::size_t>(number)] = {n, offset, std::min(c.segment, c.message - offset)};
    }

    // Returns a tag that is equal at both ends. The chunks of a lane use the same tags one after another: messages of
    // one tag arrive in the order sent.
    int tag_of(const instr& i) const noexcept {
        const int way = i.channel * p_.shape_.lanes + l_.number;
        return p_.call_.tags.of(first_program_tag + way * p_.call_.in.most_in_flight + p_.call_.number);
    }

    std::byte* staging(int number) const noexcept {
        return l_.memory.staging() + static_cast<std::size_t>(number - slots_each_way) * p_.most_segment_;
    }

    program& p_;
    lane& l_;
};

program::program(schedule full, schedule tail, const shape& s, endpoint& net)
    : net_(net),
      shape_(s),
      most_segment_(std::max(round_down(net.wire().traits().segment, s.element), s.element)),
      code_{compiled_schedule(std::move(full)), compiled_schedule(std::move(tail))},
      inputs_(std::max(code_.full.most_sources, code_.tail.most_sources)) {
    const auto& [full_code, tail_code] = code_;
    const auto own_scratch = [&](const compiled_schedule& c) { return c.code.scratch - elements_in_slot(s, c.code); };
    const auto scratch = static_cast<std::size_t>(std::max(own_scratch(full_code), own_scratch(tail_code)));
    const bool stages_input = full_code.needs_staging || tail_code.needs_staging;
    lanes_.reserve(static_cast<std::size_t>(s.lanes));
    for (int number = 0; number < s.lanes; ++number) {
        lane& l = lanes_.emplace_back(number, s, scratch * s.element, stages_input ? slots_each_way * most_segment_ : 0,
                                      std::max(full_code.code.wire, tail_code.code.wire));
        l.machine.reserve(std::max(full_code.order.size(), tail_code.order.size()));
        scratch_.bytes += l.memory.bytes();
    }
}

bool program::borrow(scratch_pool& from, std::size_t more) {
    scratch_.borrowed = from.acquire(scratch_.bytes + more);
    std::byte* memory = scratch_.borrowed.memory.get();
    if (memory == nullptr) return false;
    for (lane& l : lanes_) {
        l.memory.place(memory);
        memory += l.memory.bytes();
    }
    return true;
}

void program::take_slots() {
    const std::int64_t longest =
        std::max(elements_in_slot(shape_, code_.full.code), elements_in_slot(shape_, code_.tail.code));
    if (node_stage_runner* node = net_.node()) node->take_lanes(static_cast<std::size_t>(longest) * shape_.element);
}

void program::start(const call_context& call, recorder& events) noexcept {
    call_ = {.in = call,
             .number = static_cast<int>(call.number % static_cast<std::uint64_t>(call.most_in_flight)),
             .tags = {call.history, net_.wire().traits().highest_tag},
             .events = &events,
             .lanes_left = shape_.order().lanes_used()};
    starter_.start(
        call_.lanes_left, [](int) { return true; }, [&](int number) { begin_lane(number); });
}

void program::begin_lane(int number) noexcept {
    lane& l = lanes_[static_cast<std::size_t>(number)];
    port at(*this, l);
    l.machine.run_from(at, l.machine.order().first_of(number));
}

bool program::advance() noexcept {
    bool issued = false;
    for (lane& l : lanes_) {
        port at(*this, l);
        if (l.held) l.machine.run_from(at, l.machine.chunk());
        issued |= l.machine.issue(at);
    }
    if (!beginning()) return issued;
    starter_.after_pass(
        issued, [] { sched_yield(); }, [&](int number) { begin_lane(number); });
    return true;
}

void program::complete_request(int slot) noexcept {
    const int number = slot - call_.in.first_request;
    lane& l = lanes_[static_cast<std::size_t>(number / requests_per_lane)];
    const int in_lane = number - l.number * requests_per_lane;
    port at(*this, l);
    if (in_lane == stage_request) at.complete_stage();
    else at.complete_request(in_lane);
}

std::optional<call_counts::place> program::first_awaited() const {
    std::optional<call_counts::place> found;
    bool only_sent = true;
    for (const lane& l : lanes_) {
        const auto look = [&](std::uint32_t n) {
            const instr& i = l.instruction(n);
            if (!only_sent || (found && i.what == action::send)) return;
            const int peer = is_stage(i.what) ? net_.runner(i.by).first_missing(request_of(l, stage_request)) : i.peer;
            if (peer < 0) return;
            found = {call_.in.number, shape_.counted_as, l.code->code.phases[i.phase].stage, peer};
            only_sent = i.what == action::send;
        };
        if (l.brief) look(l.stage);
        else if (!l.held) l.machine.for_each_in_flight(look);
        if (!only_sent) break;
    }
    return found;
}

void program::add_waits(const std::vector<int>& callers_rank, waiting& all) const {
    for (const lane& l : lanes_) {
        const auto add = [&](const phase& p, int step, std::string_view what, int peer) {
            const int rank = callers_rank[static_cast<std::size_t>(peer)];
            all.add(rank, fmt::format("call {}: stage {} {}, step {}, chunk {}: {} rank {}", call_.in.number, p.stage,
                                      p.down ? "down" : "up", step, l.machine.chunk(), what, rank));
        };
        if (l.held) {
            for (const int peer : net_.node()->lane_readers(l.slot.number))
                add({}, 0, "memory that is still read by", peer);
            continue;
        }
        const auto add_all = [&](std::uint32_t n) {
            const instr& i = l.instruction(n);
            const char* preposition = i.what == action::send ? "to" : is_stage(i.what) ? "with" : "from";
            const std::string what = fmt::format("{} {}", to_string(i.what), preposition);
            const phase& p = l.code->code.phases[i.phase];
            if (!is_stage(i.what)) return add(p, i.step, what, i.peer);
            for (const int peer : net_.runner(i.by).missing(request_of(l, stage_request))) add(p, i.step, what, peer);
        };
        l.machine.for_each_in_flight(add_all);
        if (l.brief) add_all(l.stage);
    }
}

}  // namespace terrace::detail
