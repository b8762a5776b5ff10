#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace terrace {

/// Something that began or ended.
struct event {
    std::uint64_t ticks = 0;  ///< recorder::now()
    std::uint64_t call = 0;   ///< number of the call on its communicator, from 1
    std::int64_t chunk = 0;
    std::int32_t step = 0;
    std::int32_t peer = -1;  ///< rank, of messages
    std::int16_t stage = 0;  ///< of the plan's rule
    std::int16_t lane = 0;
    action what = action::copy;
    bool down = false;
    bool ends = false;
};

/// Remembers the last things that the executor did, in a ring: recording allocates nothing and costs a few nanoseconds.
/// For a trace it remembers everything, up to a limit.
class recorder {
public:
    /// @param everything keeps all events, for write_trace
    explicit recorder(bool everything);

    static std::uint64_t now() noexcept {
#if defined(__x86_64__)
        return __builtin_ia32_rdtsc();
#else
        return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
    }
    bool keeps_everything() const noexcept { return keeps_all_; }
    /// What `fill` makes of an event: in place, since a copy of so many small fields costs more than they do.
    template <class Fill>
    void record(Fill fill) noexcept {
        event& e = last_[written_++ & (last_.size() - 1)];
        e.ticks = now();
        fill(e);
        if (keeps_all_) keep(e);
    }

    /// The last events as JSON, oldest first, with what the rank waits for.
    /// @param waits one line each
    std::string dump(int rank, const std::vector<std::string>& waits) const;

    /// Appends all events to a Chrome trace (chrome://tracing, ui.perfetto.dev): a process for the rank, a track for
    /// each stage, direction and lane, a slice for each chunk. The file is valid JSON after each rank.
    /// @throws input_error if it cannot be written
    void write_trace(const std::filesystem::path& file, int rank, const std::string& name) const;

private:
    void keep(const event& e) noexcept;
    double micros_per_tick() const noexcept;
    double micros(std::uint64_t ticks, double per_tick) const noexcept;  // since 1970

    std::vector<event> last_;  // a power of two
    std::uint64_t written_ = 0;
    bool keeps_all_;
    std::vector<event> all_;
    std::uint64_t first_ticks_;
    double first_micros_;
};

/// Empties a trace file that this process has not begun yet. For one rank, before the others write.
/// @throws input_error
void begin_trace(const std::filesystem::path& file);

}  // namespace terrace
