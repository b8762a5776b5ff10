#include "executor/program.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/partition.hpp"
#include "kernels/wire.hpp"
#include "schedule/lone_stage.hpp"

namespace terrace::detail {

namespace {

// How a message is cut. Its segments are about equal, so that none of them is a straggler.
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
    std::uint32_t segments = 1;  // with whole elements in each there may be fewer than the length demands
};

const operand& payload(const instr& i) noexcept { return i.what == action::send ? i.src : i.dst; }

std::string_view preposition(action a) noexcept { return a == action::send ? "to" : is_stage(a) ? "with" : "from"; }

}  // namespace

// Carries out on the transport what a lane_machine issues.
class program::port {
public:
    // A copy is made by the thread that polls, before it looks at anything else.
    static constexpr bool locals_take_time = false;

    port(program& of, lane& l) noexcept : p_(of), l_(l) {}

    const lane_code* begin_chunk(std::int64_t chunk) noexcept {
        l_.code = l_.machine.order().is_tail(chunk) ? &p_.tail_ : &p_.full_;
        l_.held = p_.shape_.placed && !p_.net_.lane_ready(l_.slot.number);
        if (l_.held) return nullptr;
        const std::size_t begin = l_.memory.bytes_of(chunk * p_.shape_.chunks.chunk);
        const std::int64_t in_slot = p_.elements_in_slot(l_.code->code);
        std::byte* slot = in_slot > 0 ? p_.net_.lane_memory(l_.slot.number, l_.memory.bytes_of(in_slot)) : nullptr;
        l_.memory.begin_chunk(p_.send_ + begin, p_.recv_ + begin, slot, in_slot);
        l_.rounding_errors = p_.rounding_errors_ != nullptr ? p_.rounding_errors_ + begin : nullptr;
        if (!l_.code->brief) return &l_.code->order;
        p_.run_briefly(l_);
        return nullptr;
    }

    void end_chunk() noexcept { ++l_.slot.turn; }
    void end_lane() noexcept { --p_.lanes_left_; }

    std::uint32_t segments(std::uint32_t n) noexcept {
        p_.record(l_, n, false);
        return cut_of(p_.instruction(l_, n)).segments;
    }

    void send(std::uint32_t n, std::uint32_t segment) noexcept {
        const instr& i = p_.instruction(l_, n);
        const int number = l_.sends.take();
        const request& r = assign(number, n, segment);
        p_.net_.send(p_.request_of(l_, number), i.peer, tag_of(i), p_.piece_of(l_, i.src).first + r.offset,
                     p_.filled_.empty() ? r.bytes : p_.filled_bytes(i, r));
    }

    void receive(std::uint32_t n, std::uint32_t segment) noexcept {
        const instr& i = p_.instruction(l_, n);
        const int number = l_.receives.take();
        const request& r = assign(number, n, segment);
        std::byte* to = i.what == action::recv_reduce ? staging(number) : p_.piece_of(l_, i.dst).first + r.offset;
        p_.net_.recv(p_.request_of(l_, number), i.peer, tag_of(i), to, r.bytes);
    }

    void start_stage(std::uint32_t n) noexcept { p_.start_stage(l_, n); }

    void run_local(std::uint32_t n) noexcept {
        p_.record(l_, n, false);
        p_.run_local(l_, p_.instruction(l_, n));
    }

    void completed(std::uint32_t n) noexcept { p_.record(l_, n, true); }

    /// Follows the completion of the request with this number in the lane.
    void complete_request(int number) noexcept {
        const request& r = l_.requests[static_cast<std::size_t>(number)];
        const instr& i = p_.instruction(l_, r.instruction);
        if (i.what == action::recv_reduce) {
            p_.inputs_[0] = l_.memory.address(i.src) + r.offset;
            p_.inputs_[1] = staging(number);
            p_.reduce(l_.memory.address(i.dst) + r.offset, 2, static_cast<std::int64_t>(r.bytes / p_.shape_.element),
                      i);
        }
        (i.what == action::send ? l_.sends : l_.receives).give_back(number);
        l_.machine.complete(*this, r.instruction);
    }

private:
    cut cut_of(const instr& i) const noexcept {
        return {p_.message_bytes(l_, i), p_.most_segment_, i.wire == wire_type::exact ? p_.shape_.element : 1};
    }

    const request& assign(int number, std::uint32_t n, std::uint32_t segment) noexcept {
        const cut c = cut_of(p_.instruction(l_, n));
        const std::size_t offset = segment * c.segment;
        return l_.requests[static_cast<std::size_t>(number)] = {n, offset, std::min(c.segment, c.message - offset)};
    }

    // Equal at both ends. The chunks of a lane use the same tags one after another: messages of one tag arrive in the
    // order sent.
    int tag_of(const instr& i) const noexcept {
        const int way = i.channel * p_.shape_.lanes + l_.number;
        return p_.tags_.of(first_program_tag + way * p_.call_.most_in_flight + p_.call_number_);
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
      has_places_(s.own_lengths || !s.steps.empty()),
      most_segment_(std::max(round_down(net.segment(), s.element), s.element)),
      full_(std::move(full)),
      tail_(std::move(tail)),
      inputs_(std::max(full_.most_sources, tail_.most_sources)) {
    const auto own_scratch = [&](const compiled_schedule& c) { return c.code.scratch - elements_in_slot(c.code); };
    const auto scratch = static_cast<std::size_t>(std::max(own_scratch(full_), own_scratch(tail_)));
    const bool stages_input = full_.needs_staging || tail_.needs_staging;
    lanes_.reserve(static_cast<std::size_t>(s.lanes));
    for (int number = 0; number < s.lanes; ++number) {
        lane& l = lanes_.emplace_back(number, s, scratch * s.element, stages_input ? slots_each_way * most_segment_ : 0,
                                      std::max(full_.code.wire, tail_.code.wire));
        l.machine.reserve(std::max(full_.order.size(), tail_.order.size()));
        scratch_bytes_ += l.memory.bytes();
    }
}

bool program::borrow(scratch_pool& from, std::size_t more) {
    borrowed_ = from.take(scratch_bytes_ + more);
    std::byte* memory = borrowed_.memory.get();
    if (memory == nullptr) return false;
    for (lane& l : lanes_) {
        l.memory.place(memory);
        memory += l.memory.bytes();
    }
    return true;
}

void program::take_slots() {
    const std::int64_t longest = std::max(elements_in_slot(full_.code), elements_in_slot(tail_.code));
    net_.take_lanes(static_cast<std::size_t>(longest) * shape_.element);
}

void program::take(const call_buffers& b) {
    send_ = const_cast<std::byte*>(static_cast<const std::byte*>(b.send));
    recv_ = static_cast<std::byte*>(b.recv);
    rounding_errors_ = static_cast<std::byte*>(b.rounding_errors);
    pieces_.clear();
    filled_.clear();
    if (const auto* vectors = std::get_if<vector_pieces>(&b.layout)) {
        pieces_.assign(vectors->pieces.begin(), vectors->pieces.end());
    } else if (const auto* lengths = std::get_if<own_lengths>(&b.layout)) {
        send_blocks_.assign(lengths->block, lengths->sent);
        recv_blocks_.assign(lengths->block, lengths->received);
    } else if (const auto* blocks = std::get_if<filled_blocks>(&b.layout)) {
        block_ = blocks->block;
        filled_.assign(blocks->filled.begin(), blocks->filled.end());
    }
}

void program::start(const call_context& call, recorder& events) noexcept {
    call_ = call;
    call_number_ = static_cast<int>(call.number % static_cast<std::uint64_t>(call.most_in_flight));
    tags_ = {call.history, net_.highest_tag()};
    events_ = &events;
    lanes_left_ = order_of(shape_).lanes_used();
    starter_.start(
        lanes_left_, [](int) { return true; }, [&](int number) { begin_lane(number); });
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
    const int number = slot - call_.first_request;
    lane& l = lanes_[static_cast<std::size_t>(number / requests_per_lane)];
    const int in_lane = number - l.number * requests_per_lane;
    if (in_lane == stage_request) complete_stage(l);
    else port(*this, l).complete_request(in_lane);
}

void program::run_briefly(lane& l) noexcept {
    for (const std::uint32_t n : l.code->order.locals) {
        record(l, n, false);
        run_local(l, instruction(l, n));
        record(l, n, true);
    }
    l.brief = true;
    start_stage(l, l.code->order.stages.front());
}

void program::start_stage(lane& l, std::uint32_t n) noexcept {
    const instr& i = instruction(l, n);
    l.stage = n;
    record(l, n, false);
    stage_call& c = l.running;
    c.what = i.what;
    c.by = i.by;
    c.group = &l.code->code.groups[static_cast<std::size_t>(i.peer)];
    c.src = l.memory.first(i.src.where);
    c.own = l.memory.first(own_part_of(l.code->code, i, l.code->gives_copy));
    c.pieces = pieces_;
    c.dst = l.memory.first(i.dst.where);
    c.sharded = i.sources > 0;
    c.element = shape_.element;
    c.reduce = shape_.reduce;
    c.divisor = i.completes ? shape_.divisor : 1;
    c.last = i.successors == 0 && n == l.code->order.stages.back();
    c.streams = shape_.streams;
    c.channel = i.channel;
    c.lane_slot = l.slot.number;
    c.turn = l.slot.turn;
    c.number = call_.number;
    c.through = call_.through;
    c.history = static_cast<std::uint16_t>(call_.history);
    net_.stage(request_of(l, stage_request), c);
}

void program::complete_stage(lane& l) noexcept {
    port at(*this, l);
    if (!l.brief) return l.machine.complete(at, l.stage);
    record(l, l.stage, true);
    l.brief = false;
    at.end_chunk();
    l.machine.run_from(at, l.machine.order().next(l.machine.chunk()));
}

void program::run_local(lane& l, const instr& i) noexcept {
    if (i.what == action::copy) {
        if (!pieces_.empty() && i.src.where == buffer::send)
            return copy_given_pieces(l.memory.address(i.dst), i.src.part);
        const piece from = piece_of(l, i.src), to = piece_of(l, i.dst);
        if (from.first != to.first && to.count > 0) std::memcpy(to.first, from.first, l.memory.bytes_of(to.count));
        return;
    }
    std::byte* to = l.memory.address(i.dst);
    if (i.what == action::encode) {
        encode(to, l.memory.address(i.src), i.src.part.count(), shape_.type, i.wire);
        if (l.rounding_errors != nullptr) keep_rounding_errors(l, i);
        return;
    }
    if (i.what == action::decode) return decode(to, l.memory.address(i.src), i.dst.part.count(), shape_.type, i.wire);
    int k = 0;
    for (const operand& o : l.code->code.sources_of(i)) inputs_[static_cast<std::size_t>(k++)] = l.memory.address(o);
    reduce(to, k, i.dst.part.count(), i);
}

void program::copy_given_pieces(std::byte* to, range part) const noexcept {
    for_each_piece(pieces_, part, [&](range some, const call_piece& p, std::int64_t first) {
        const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * shape_.element; };
        std::memcpy(to, p.given + bytes(first), bytes(some.count()));
        to += bytes(some.count());
    });
}

// What is encoded is part of the vector. Results are encoded in each domain, so that their owners alone keep errors.
void program::keep_rounding_errors(const lane& l, const instr& encoding) const noexcept {
    const schedule& s = l.code->code;
    const range part = encoding.src.part;
    const auto keep = [&](range some, double weight) {
        if (some.begin < some.end)
            add_rounding_errors(l.rounding_errors + l.memory.bytes_of(part.begin), l.memory.address(encoding.src),
                                l.memory.address(encoding.dst), {some.begin - part.begin, some.end - part.begin},
                                weight, shape_.type, encoding.wire);
    };
    if (!s.phases[encoding.phase].down) return keep(part, 1);
    for (const range& own : s.owned)
        keep({std::max(part.begin, own.begin), std::min(part.end, own.end)}, 1.0 / shape_.owners);
}

void program::reduce(std::byte* to, int sources, std::int64_t count, const instr& i) noexcept {
    shape_.reduce(to, inputs_.data(), sources, count, i.completes ? shape_.divisor : 1);
}

program::piece program::piece_of(const lane& l, const operand& o) const noexcept {
    if (!has_places_) return {l.memory.address(o), o.part.count()};
    const bool sends = o.where == buffer::send;
    const std::int64_t chunk = l.machine.chunk();
    const bool is_tail = l.machine.order().is_tail(chunk);
    if (!shape_.own_lengths)
        return {l.memory.address(o) + l.memory.bytes_of(shape_.steps.of(o, chunk, is_tail)), o.part.count()};
    const range part = (sends ? send_blocks_ : recv_blocks_).part_of(o.part, chunk * shape_.chunks.chunk, is_tail);
    return {(sends ? send_ : recv_) + l.memory.bytes_of(part.begin), part.count()};
}

std::size_t program::message_bytes(const lane& l, const instr& i) const noexcept {
    const std::int64_t count = piece_of(l, payload(i)).count;
    return i.wire == wire_type::exact ? static_cast<std::size_t>(count) * shape_.element
                                      : static_cast<std::size_t>(wire_bytes(i.wire, count));
}

// Of a segment of a message. The receiver expects all segments, of which the last ones may be empty.
std::size_t program::filled_bytes(const instr& i, const request& r) const noexcept {
    const auto filled = static_cast<std::size_t>(filled_[static_cast<std::size_t>(i.src.part.begin / block_)]);
    return std::min(std::max(filled * shape_.element, r.offset) - r.offset, r.bytes);
}

std::int64_t program::elements_in_slot(const schedule& s) const noexcept {
    const bool fits = static_cast<std::size_t>(s.count) * shape_.element <= shape_.slot_bytes;
    return fits && s.home.where == buffer::scratch ? s.count : 0;
}

// Local instructions hold nobody up: only traces show them.
void program::record(const lane& l, std::uint32_t n, bool ends) noexcept {
    const instr& i = instruction(l, n);
    if (l.code->order.kinds[n] == lane_code::kind::local && !events_->keeps_everything()) return;
    const phase& p = l.code->code.phases[i.phase];
    events_->record([&](event& e) {
        e.call = call_.number;
        e.chunk = l.machine.chunk();
        e.step = i.step;
        e.peer = is_stage(i.what) ? -1 : i.peer;
        e.stage = static_cast<std::int16_t>(p.stage);
        e.lane = static_cast<std::int16_t>(l.number);
        e.what = i.what;
        e.down = p.down;
        e.ends = ends;
    });
}

std::optional<program::awaited> program::first_awaited() const {
    std::optional<awaited> found;
    bool only_sent = true;
    for (const lane& l : lanes_) {
        const auto look = [&](std::uint32_t n) {
            const instr& i = instruction(l, n);
            if (!only_sent || (found && i.what == action::send)) return;
            const int peer = is_stage(i.what) ? net_.first_missing(request_of(l, stage_request)) : i.peer;
            if (peer < 0) return;
            found = {l.code->code.phases[i.phase].stage, peer};
            only_sent = i.what == action::send;
        };
        if (l.brief) look(l.stage);
        else if (!l.held) l.machine.for_each_in_flight(look);
        if (!only_sent) break;
    }
    return found;
}

std::vector<program::wait> program::waits() const {
    std::vector<wait> found;
    for (const lane& l : lanes_) {
        const std::int64_t chunk = l.machine.chunk();
        if (l.held) {
            for (int peer : net_.lane_readers(l.slot.number))
                found.push_back({0, false, 0, chunk, "memory that is still read by", peer});
            continue;
        }
        const auto add = [&](std::uint32_t n, int peer) {
            const instr& i = instruction(l, n);
            const phase& p = l.code->code.phases[i.phase];
            found.push_back(
                {p.stage, p.down, i.step, chunk, fmt::format("{} {}", to_string(i.what), preposition(i.what)), peer});
        };
        const auto add_all = [&](std::uint32_t n) {
            if (!is_stage(instruction(l, n).what)) return add(n, instruction(l, n).peer);
            for (int peer : net_.missing(request_of(l, stage_request))) add(n, peer);
        };
        l.machine.for_each_in_flight(add_all);
        if (l.brief) add_all(l.stage);
    }
    return found;
}

}  // namespace terrace::detail
