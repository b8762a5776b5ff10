#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/chunk_order.hpp"
#include "schedule/lane_code.hpp"

namespace terrace::detail {

/// Executes the instructions that a lane_machine issues. The runtime, the simulator and the proof against deadlocks are
/// ports. The machine calls a port directly, so a port costs no virtual call. A port must not call the machine back
/// from inside these functions.
template <class P>
concept lane_port = requires(P& port, std::int64_t chunk, std::uint32_t n, std::uint32_t segment) {
    /// The completion of local instructions (copy, reduce). This is the only rule in which the ports differ:
    /// * false: they complete when run_local() returns. The runtime uses this, since its thread makes the copy before
    ///   anything else, and so does the proof, since local instructions need no other rank.
    /// * true: they complete when the port calls complete(). The simulator uses this: messages arrive and are issued
    ///   while a copy occupies the rank's processor.
    { P::locals_take_time } -> std::convertible_to<bool>;
    /// Returns the chunk's instructions. Null if the chunk cannot begin yet, or if the port runs it by itself: the lane
    /// then waits until the port calls run_from() with this chunk or the next.
    { port.begin_chunk(chunk) } -> std::same_as<const lane_code*>;
    /// All instructions of the lane's chunk are complete.
    port.end_chunk();
    /// All chunks of the lane are complete.
    port.end_lane();
    /// Returns the number of segments, at least 1, that message n is cut into. Called once, before its first segment.
    { port.segments(n) } -> std::convertible_to<std::uint32_t>;
    port.send(n, segment);
    port.receive(n, segment);
    port.start_stage(n);
    port.run_local(n);
    /// Instruction n is complete, and those that wait for it are about to be released.
    port.completed(n);
};

/// One lane of one rank. Decides when each instruction of the lane's chunks is issued:
///
/// * A lane runs its chunks (chunk_order) one after another.
/// * An instruction is issued when all instructions that it waits for are complete.
/// * Sends are issued in program order, and so are receives. Messages are cut into segments, and each segment occupies
///   one of the request slots of its direction until it is complete. A message that cannot be issued delays the
///   messages behind it in its direction, and nothing else.
/// * The first segment of a fenced send (fenced_sends) is issued when no send of the lane is in flight.
/// * Stages of the transport are issued in program order, one at a time.
/// * A local instruction is issued as soon as all instructions that it waits for are complete.
///
/// Ranks cannot deadlock under this rule. Take the incomplete message that is first in the order (step, group), which
/// is the same on all ranks. All messages before it are complete at both ends, so both ends have issued it. One request
/// slot in each direction therefore suffices; more slots only let messages start earlier. Fences only reduce the number
/// of requests in flight, so the argument covers them.
class lane_machine {
public:
    /// @param request_slots slots of each direction. The proof uses 1, which is the strictest rule; the runtime and the
    /// simulator use slots_each_way.
    lane_machine(const chunk_order& order, int request_slots) noexcept : order_(order), request_slots_(request_slots) {}

    /// Reserves memory for chunks of this many instructions, so running them allocates none.
    void reserve(std::size_t instructions) {
        waits_.reserve(instructions);
        segments_.reserve(instructions);
        ready_.reserve(instructions);
    }

    /// Begins a chunk of the lane, and the chunks after it as long as they complete at once. Issues local instructions
    /// only; issue() issues the others.
    template <lane_port Port>
    void run_from(Port& port, std::int64_t chunk) {
        for (; order_.exists(chunk); chunk = order_.next(chunk)) {
            chunk_ = chunk;
            code_ = port.begin_chunk(chunk);
            if (code_ == nullptr) return;
            begin(port);
            if (left_ > 0) return;
            port.end_chunk();
        }
        code_ = nullptr;
        port.end_lane();
    }

    /// Issues all messages and stages that may be issued now. Returns true if there was one.
    template <lane_port Port>
    bool issue(Port& port) {
        if (code_ == nullptr) return false;
        bool issued = issue_messages<lane_code::kind::receive>(port, code_->receives, receives_);
        issued |= issue_messages<lane_code::kind::send>(port, code_->sends, sends_);
        return issue_stage(port) || issued;
    }

    /// Completes a segment of message n, or any other instruction n. Releases the instructions that waited for it, and
    /// begins the lane's next chunk if this one is complete. The caller calls issue() afterwards.
    template <lane_port Port>
    void complete(Port& port, std::uint32_t n) {
        switch (code_->kinds[n]) {
            case lane_code::kind::send:
                --sends_.in_flight;
                if (--segments_[n] > 0) return;
                break;
            case lane_code::kind::receive:
                --receives_.in_flight;
                if (--segments_[n] > 0) return;
                break;
            case lane_code::kind::stage:
                stage_runs_ = false;
                ++stage_;
                break;
            case lane_code::kind::local: break;
        }
        finish(port, n);
        run_ready(port);
        if (left_ > 0) return;
        port.end_chunk();
        run_from(port, order_.next(chunk_));
    }

    /// Returns the chunk that runs, or that begin_chunk() has postponed.
    std::int64_t chunk() const noexcept { return chunk_; }
    const chunk_order& order() const noexcept { return order_; }

    /// Returns true once the next lane of the call may begin: usually at once. If parts of a chunk take routes and
    /// there are more chunks than lanes, this lane must first complete 1 / lanes of its first chunk. Otherwise all
    /// lanes run in step: they all send long messages over all links at one time, and short ones that leave links idle
    /// at another.
    bool lets_next_begin() const noexcept {
        const bool keeps_step = code_ != nullptr && code_->takes_routes && order_.chunks > order_.lanes;
        if (!keeps_step || chunk_ >= order_.lanes) return true;
        return (code_->size() - left_) * static_cast<std::size_t>(order_.lanes) >= code_->size();
    }

    /// Calls f(n) for each message and stage that has been issued and is not complete.
    template <class F>
    void for_each_in_flight(F&& f) const {
        if (code_ == nullptr) return;
        for (std::uint32_t n = 0; n < segments_.size(); ++n)
            if (segments_[n] > 0) f(n);
        if (stage_runs_) f(code_->stages[stage_]);
    }

private:
    // Walks the segments of one direction's messages in program order.
    struct cursor {
        std::size_t message = 0;     // index into lane_code::sends or receives: the next one to issue
        std::uint32_t segment = 0;   // next segment of that message to issue
        std::uint32_t segments = 0;  // number of segments of that message, if segment > 0
        int in_flight = 0;           // segments in flight, in one request slot each
    };

    template <lane_port Port>
    void begin(Port& port) {
        waits_.assign(code_->waits.begin(), code_->waits.end());
        segments_.assign(code_->size(), 0);
        ready_.clear();
        left_ = code_->size();
        sends_ = receives_ = {};
        stage_ = 0;
        stage_runs_ = false;
        for (const std::uint32_t n : code_->locals)
            if (waits_[n] == 0) start_local(port, n);
        run_ready(port);
    }

    template <lane_code::kind Direction, lane_port Port>
    bool issue_messages(Port& port, const std::vector<std::uint32_t>& messages, cursor& next) {
        bool issued = false;
        while (next.message < messages.size() && next.in_flight < request_slots_) {
            const std::uint32_t n = messages[next.message], segment = next.segment;
            if (waits_[n] > 0) break;
            if (segment == 0) {
                if (Direction == lane_code::kind::send && next.in_flight > 0 && code_->fenced[n]) break;
                next.segments = segments_[n] = port.segments(n);
            }
            ++next.in_flight;
            if (++next.segment == next.segments) ++next.message, next.segment = 0;
            if constexpr (Direction == lane_code::kind::send) port.send(n, segment);
            else port.receive(n, segment);
            issued = true;
        }
        return issued;
    }

    template <lane_port Port>
    bool issue_stage(Port& port) {
        if (stage_runs_ || stage_ == code_->stages.size() || waits_[code_->stages[stage_]] > 0) return false;
        stage_runs_ = true;
        port.start_stage(code_->stages[stage_]);
        return true;
    }

    template <lane_port Port>
    void finish(Port& port, std::uint32_t n) {
        --left_;
        port.completed(n);
        for (const std::uint32_t next : code_->successors_of(n))
            if (--waits_[next] == 0 && code_->kinds[next] == lane_code::kind::local) start_local(port, next);
    }

    template <lane_port Port>
    void start_local(Port& port, std::uint32_t n) {
        if constexpr (Port::locals_take_time) port.run_local(n);
        else ready_.push_back(n);
    }

    // Uses a stack, not recursion, since local instructions may release one another in long chains.
    template <lane_port Port>
    void run_ready(Port& port) {
        while (!ready_.empty()) {
            const std::uint32_t n = ready_.back();
            ready_.pop_back();
            port.run_local(n);
            finish(port, n);
        }
    }

    chunk_order order_;
    int request_slots_;
    const lane_code* code_ = nullptr;  // code of the chunk that runs; null: none runs
    std::int64_t chunk_ = 0;
    std::size_t left_ = 0;                 // instructions that are not complete
    std::vector<std::uint32_t> waits_;     // by instruction: number of instructions that it still waits for
    std::vector<std::uint32_t> segments_;  // by message that has been issued: segments that are not complete
    std::vector<std::uint32_t> ready_;     // local instructions that can run now, unless Port::locals_take_time
    cursor sends_, receives_;
    std::size_t stage_ = 0;  // index into lane_code::stages: the one that runs, or the next
    bool stage_runs_ = false;
};

/// The time at which the lanes of a call begin.
enum class lane_start : std::uint8_t {
    /// One after another: a lane begins after the rank has yielded once and then found nothing to issue in the lanes
    /// before. The runtime uses this. Chunks begin with copies, and otherwise each rank of a shared core would make the
    /// copies of all its lanes before the next rank makes its first, while links are idle.
    one_by_one,
    /// All at time 0, as far as they may. The simulator uses this, since it has no scheduler that gives a core to
    /// another rank.
    all_at_once,
};

/// Begins the lanes of a call in ascending order, each one once the lane before lets it
/// (lane_machine::lets_next_begin).
class lane_starter {
public:
    explicit lane_starter(lane_start how) noexcept : how_(how) {}

    /// Begins a call of `lanes` lanes, at least one. Calls begin(lane) for each lane that begins with the call.
    /// @param may_follow called with a lane, returns true if the lane after it may begin
    template <class MayFollow, class Begin>
    void start(int lanes, MayFollow&& may_follow, Begin&& begin) {
        lanes_ = lanes;
        begun_ = 0;
        yielded_ = false;
        begin(begun_++);
        if (how_ == lane_start::all_at_once) go_on(may_follow, begin);
    }

    /// Begins the lanes that may begin now.
    template <class MayFollow, class Begin>
    void go_on(MayFollow&& may_follow, Begin&& begin) {
        while (pending() && may_follow(last())) begin(begun_++);
    }

    /// Returns true while lanes have yet to begin.
    bool pending() const noexcept { return begun_ < lanes_; }
    /// Returns the lane that began last.
    int last() const noexcept { return begun_ - 1; }

    /// To be called after each pass over all lanes while the next lane may begin. Calls yield() or begin(lane), or
    /// neither. @param issued true if the pass has issued an instruction
    template <class Yield, class Begin>
    void after_pass(bool issued, Yield&& yield, Begin&& begin) {
        if (!yielded_) {
            yield();
            yielded_ = true;
        } else if (!issued) {
            yielded_ = false;
            begin(begun_++);
        }
    }

private:
    lane_start how_;
    int lanes_ = 0, begun_ = 0;
    bool yielded_ = false;  // true if the rank has yielded since the last lane began
};

}  // namespace terrace::detail
