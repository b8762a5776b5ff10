#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "statistics/message_times.hpp"
#include "statistics/trace_file.hpp"

namespace terrace::detail {

/// Begin or end of an instruction.
struct event {
    std::uint64_t ticks = 0;  ///< recorder::now()
    std::uint64_t call = 0;   ///< number of the call on its communicator, from 1
    std::int64_t chunk = 0;
    std::int32_t step = 0;
    std::int32_t peer = -1;  ///< rank at the other end of a message; -1 for anything else
    std::int16_t stage = 0;  ///< stage of the plan's rule
    std::int16_t lane = 0;
    action what = action::copy;
    bool down = false;
    bool ends = false;
};

/// Keeps the last 1,024 events of a rank in a ring buffer. Recording allocates nothing and costs a few nanoseconds. For
/// a trace, keeps all events, up to four million.
class recorder {
public:
    using time_point = std::chrono::steady_clock::time_point;

    /// @param everything keeps all events, for write_trace
    /// @param rank of the communicator
    explicit recorder(bool everything, int rank = 0);

    static std::uint64_t now() noexcept {
#if defined(__x86_64__)
        return __builtin_ia32_rdtsc();
#else
        return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
    }
    bool keeps_everything() const noexcept { return keeps_all_; }
    /// Records an event that fill(event&) completes. The event is filled in place, since copying so many small fields
    /// costs more than writing them.
    template <class Fill>
    void record(Fill fill) noexcept {
        event& e = last_[written_++ & (last_.size() - 1)];
        e.ticks = now();
        fill(e);
        if (keeps_all_) keep(e);
    }

    /// Records from now on when messages with other nodes begin and complete. @param to must outlive the recorder
    void record_messages(message_times& to) noexcept { messages_ = &to; }
    void note_message(int peer, bool sends, std::size_t bytes, int calls) noexcept {
        if (messages_ != nullptr && messages_->notes(peer, bytes))
            messages_->note(peer, sends, bytes, calls, message_times::clock::now);
    }

    /// Returns the number of events recorded so far.
    std::uint64_t count() const noexcept { return written_; }
    /// Returns the time of an event [ticks]. @param n number of the event, from 0, one of the last 1,024
    std::uint64_t ticks_of(std::uint64_t n) const noexcept { return last_[n & (last_.size() - 1)].ticks; }
    /// Returns the length of a tick [us], measured over the life of the recorder.
    double micros_per_tick() const noexcept;

    /// Describes a call that later events refer to. Does nothing unless all events are kept.
    void describe(const traced_call& call);

    /// Adds a time span of the program to a track of the trace. Spans of a track must not overlap. Does nothing unless
    /// all events are kept.
    void add(std::string track, std::string name, time_point begin, time_point end);

    /// Returns the last events as JSON, oldest first, with host, process, time and the waits of the rank.
    /// @param waits lines of `waiting`
    std::string dump(const std::vector<std::string>& waits) const;

    /// Appends all events to a trace. @param plan its name   @throws input_error
    void write_trace(const std::filesystem::path& file, const std::string& plan) const;

private:
    void keep(const event& e) noexcept;
    double micros(std::uint64_t ticks, double per_tick) const noexcept {  // since 1970 [us]
        return start_.micros + static_cast<double>(ticks - start_.ticks) * per_tick;
    }

    std::vector<event> last_;            // ring buffer; its size is a power of two
    std::uint64_t written_ = 0;          // events so far
    message_times* messages_ = nullptr;  // null: not recorded
    bool keeps_all_;
    traced_rank of_;
    std::vector<event> all_;
    std::vector<traced_call> calls_;  // ascending
    std::vector<traced_span> spans_;
    // Time of creation, by three clocks.
    struct {
        std::uint64_t ticks;
        double micros;
        time_point steady;
    } start_;
};

}  // namespace terrace::detail
