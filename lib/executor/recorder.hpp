#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <terrace/types.hpp>

#include "schedule/schedule.hpp"

namespace terrace::detail {

/// The begin or the end of an instruction.
struct event {
    std::uint64_t ticks = 0;  ///< recorder::now()
    std::uint64_t call = 0;   ///< number of the call on its communicator, from 1
    std::int64_t chunk = 0;
    std::int32_t step = 0;
    std::int32_t peer = -1;  ///< rank at the other end of a message; -1 for anything else
    std::int16_t stage = 0;  ///< of the plan's rule
    std::int16_t lane = 0;
    action what = action::copy;
    bool down = false;
    bool ends = false;
};

/// A call as a trace shows it.
struct traced_call {
    std::uint64_t number = 0;  ///< of the call on its communicator, from 1
    collective what = collective::allreduce;
    element_type type = element_type::float32;
    std::int64_t bytes = 0;  ///< of the vector, or of all blocks together
};

/// What the program did in a time of its own.
struct traced_span {
    std::string track;  ///< of the trace; spans of a track do not overlap
    std::string name;
    std::chrono::steady_clock::time_point begin, end;
};

/// Keeps the last 1,024 events of a rank in a ring buffer. To record one allocates nothing and costs a few nanoseconds.
/// For a trace it keeps all events, up to four million.
class recorder {
public:
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
    /// Records an event that fill(event&) completes. It is filled in place, since to copy so many small fields costs
    /// more than to write them.
    template <class Fill>
    void record(Fill fill) noexcept {
        event& e = last_[written_++ & (last_.size() - 1)];
        e.ticks = now();
        fill(e);
        if (keeps_all_) keep(e);
    }

    /// Returns how many events have been recorded.
    std::uint64_t count() const noexcept { return written_; }
    /// Returns when an event was recorded. @param n its number, from 0, among the last ones
    std::uint64_t ticks_of(std::uint64_t n) const noexcept { return last_[n & (last_.size() - 1)].ticks; }
    /// Returns the length of a tick [us], measured over the life of the recorder.
    double micros_per_tick() const noexcept;

    /// Says what a call is that events will name. Does nothing unless all events are kept.
    void describe(const traced_call& call);

    /// Adds a slice to the trace. Does nothing unless all events are kept.
    void add(traced_span span);

    /// Returns the last events as JSON, oldest first, with host, process, time and what the rank is waiting for.
    /// @param waits lines of `waiting`
    std::string dump(const std::vector<std::string>& waits) const;

    /// Appends all events to a Chrome trace (chrome://tracing, ui.perfetto.dev): a process for each rank, numbered as
    /// in the first communicator that the calling thread created, and a slice for each chunk in each stage. A track
    /// holds one lane of one stage in one direction, of one communicator, of calls that are not in flight together: so
    /// slices of a track never overlap. The file is valid JSON after each rank. Processes may append to one file at the
    /// same time.
    /// @throws input_error if it cannot be written
    void write_trace(const std::filesystem::path& file, const std::string& name) const;

private:
    void keep(const event& e) noexcept;
    double micros(std::uint64_t ticks, double per_tick) const noexcept;  // since 1970

    std::vector<event> last_;    // ring buffer; its size is a power of two
    std::uint64_t written_ = 0;  // events so far
    bool keeps_all_;
    int rank_;
    int process_;       // rank in the first communicator of the creating thread
    int communicator_;  // number among those of this process, from 1
    std::vector<event> all_;
    std::vector<traced_call> calls_;  // ascending
    std::vector<traced_span> spans_;
    std::uint64_t first_ticks_;  // a moment by three clocks
    double first_micros_;
    std::chrono::steady_clock::time_point first_steady_ = std::chrono::steady_clock::now();
};

/// Empties a trace file, unless this process has done so before. Called by one rank, before any rank appends to it.
/// @throws input_error if the file cannot be written, or is not a regular file
void begin_trace(const std::filesystem::path& file);

}  // namespace terrace::detail
