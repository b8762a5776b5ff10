#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/chunk_order.hpp"
#include "schedule/lane_code.hpp"

namespace terrace::detail {

/// Carries out what a lane_machine issues. The runtime, the simulator and the proof against deadlocks are ports. The
/// machine calls a port directly, so a port costs no virtual call; a port must not call the machine back from inside
/// these functions.
template <class P>
concept lane_port = requires(P& port, std::int64_t chunk, std::uint32_t n, std::uint32_t segment) {
    /// How local instructions (copy, reduce) complete. The one rule in which the ports differ:
    /// * false: when run_local() returns. So it is in the runtime, whose thread makes the copy before it looks at
    ///   anything else, and in the proof, where they need no other rank.
    /// * true: when the port calls complete(). So it is in the simulator, where a copy occupies the rank's processor
    ///   for some time, in which messages arrive and are issued.
    { P::locals_take_time } -> std::convertible_to<bool>;
    /// Returns the chunk's instructions. Null if the chunk cannot begin yet, or the port runs it by itself: the lane
    /// then rests until the port calls run_from() with this chunk or the next.
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
/// * Sends are issued in program order, and so are receives. A message goes in segments, and each segment occupies one
///   of the request slots of its direction until it is complete. A message that cannot be issued holds up those behind
///   it in its direction, and nothing else.
/// * The first segment of a fenced send (fenced_sends) is issued when no send of the lane is in flight.
/// * Stages of the transport are issued in program order, one at a time.
/// * A local instruction is issued as soon as nothing is left that it waits for.
///
/// Why ranks cannot deadlock under this rule: of all messages that are not complete take the one that is first in the
/// order (step, group), which is the same on all ranks. Everything that precedes it at either end is complete, so both
/// ends have issued it. One request slot in each direction therefore suffices, and more only let messages start
/// earlier. Fences hold a lane to fewer requests than it has slots, so the argument covers them.
class lane_machine {
public:
    /// @param request_slots of each direction. The proof uses 1, which is the strictest rule; the runtime and the
    /// simulator use slots_each_way.
    lane_machine(const chunk_order& order, int request_slots) noexcept : order_(order), request_slots_(request_slots) {}

    /// Makes room for chunks of so many instructions, so that running them allocates nothing.
    void reserve(std::size_t instructions) {
        waits_.reserve(instructions);
        segments_.reserve(instructions);
        ready_.reserve(instructions);
    }

    /// Runs the lane's chunks from `chunk` on: begins it, and the next ones as long as they complete at once. Issues
    /// local instructions only; issue() does the rest.
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

    /// Completes a segment of message n, or all of any other instruction; releases what waited for it, and begins the
    /// lane's next chunk if it was the last one of this. The caller calls issue() afterwards.
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

    /// The chunk that runs, or that begin_chunk() has put off.
    std::int64_t chunk() const noexcept { return chunk_; }
    const chunk_order& order() const noexcept { return order_; }

    /// Returns true once the next lane of the call may begin. Mostly that is at once. Where parts of a chunk take
    /// routes side by side, and each lane has several chunks, it is when this lane has gone through its part of the
    /// first one: lanes that begin together keep step, so that all of them send long messages over all links at one
    /// time, and short ones that leave links idle at another.
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
        std::uint32_t segment = 0;   // of that message: the next one to issue
        std::uint32_t segments = 0;  // of that message, if segment > 0
        int in_flight = 0;           // segments: request slots in use
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

    // A stack instead of a recursion: one local instruction may release the next, as often as there are any.
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
    const lane_code* code_ = nullptr;  // of the chunk that runs; null: none does
    std::int64_t chunk_ = 0;
    std::size_t left_ = 0;                 // instructions that are not complete
    std::vector<std::uint32_t> waits_;     // by instruction: how many it still waits for
    std::vector<std::uint32_t> segments_;  // by message that has been issued: segments that are not complete
    std::vector<std::uint32_t> ready_;     // local instructions that can run, if these take no time
    cursor sends_, receives_;
    std::size_t stage_ = 0;  // index into lane_code::stages: the one that runs, or the next
    bool stage_runs_ = false;
};

/// When the lanes of a call begin.
enum class lane_start : std::uint8_t {
    /// Each one after the rank has given its core away once and then found nothing to issue for those before it. So it
    /// is in the runtime: chunks begin with copies, and ranks that share a core would each make the copies of all lanes
    /// before the next rank makes its first, while links wait.
    one_by_one,
    /// All at time 0, as far as they may. So it is in the simulator, which knows of no scheduler that could give a core
    /// to another rank.
    all_at_once,
};

/// Begins the lanes of a call in ascending order, each one once the lane before lets it
/// (lane_machine::lets_next_begin).
class lane_starter {
public:
    explicit lane_starter(lane_start how) noexcept : how_(how) {}

    /// Begins a call of so many lanes, at least one. Calls begin(lane) for those that begin with the call.
    /// @param may_follow returns whether the lane after this one may begin
    template <class MayFollow, class Begin>
    void start(int lanes, MayFollow&& may_follow, Begin&& begin) {
        lanes_ = lanes;
        begun_ = 0;
        yielded_ = false;
        begin(begun_++);
        if (how_ == lane_start::all_at_once) go_on(may_follow, begin);
    }

    /// Begins those lanes that may.
    template <class MayFollow, class Begin>
    void go_on(MayFollow&& may_follow, Begin&& begin) {
        while (pending() && may_follow(last())) begin(begun_++);
    }

    /// Returns true while lanes have still to begin.
    bool pending() const noexcept { return begun_ < lanes_; }
    /// Returns the lane that has begun last.
    int last() const noexcept { return begun_ - 1; }

    /// Follows each pass over all lanes while the next one may begin. Calls yield() or begin(lane), or neither.
    /// @param issued the pass has issued something
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
    bool yielded_ = false;  // since a lane began
};

}  // namespace terrace::detail
