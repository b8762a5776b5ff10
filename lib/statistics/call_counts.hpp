#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <terrace/statistics.hpp>

namespace terrace::detail {

/// Counts the calls of one rank on one communicator, and adds up its waits in bounded memory. Counting allocates memory
/// only for the first call of each size.
class call_counts {
public:
    /// The place where a rank waits.
    struct place {
        std::uint64_t call = 0;  ///< number of the call, from 1
        int size = -1;           ///< result of size_of(); -1: not counted
        int stage = 0;
        int peer = 0;
    };

    call_counts() { waits_.reserve(most_waits); }

    /// Returns the number of a size of calls. @param call the name of the call, valid until the process ends
    int size_of(std::string_view call, std::int64_t bytes);
    /// Counts a complete call. @param size -1: not counted   @param ticks from its begin to its end
    void ended(int size, std::int64_t bytes, std::uint64_t ticks) noexcept {
        if (size < 0) return;
        count& c = sizes_[static_cast<std::size_t>(size)];
        ++c.calls;
        c.bytes += bytes;
        c.ticks += ticks;
    }
    /// Adds a wait. If there is no room, doubles the length of slices.
    void waited(const place& where, double seconds) noexcept;

    /// Returns all counts and waits, without limits.
    /// @param callers_rank the caller's number of each peer   @param tick [s]
    statistics all(const std::vector<int>& callers_rank, double tick) const;

    static constexpr std::size_t most_waits = 4096;

private:
    struct count {
        std::string_view call;
        std::int64_t bytes_from = 0;
        std::int64_t calls = 0, bytes = 0;
        std::uint64_t ticks = 0;
    };
    struct wait {
        std::uint64_t slice = 0;
        int size = 0, stage = 0, peer = 0;
        double seconds = 0;
    };

    void make_room() noexcept;

    std::vector<count> sizes_;
    std::vector<wait> waits_;  // waits of the latest slice are last
    std::uint64_t calls_per_slice_ = 1;
};

}  // namespace terrace::detail
