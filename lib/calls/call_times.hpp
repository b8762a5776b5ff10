#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/profile.hpp"

namespace terrace::detail {

/// Times of calls by collective and size, for options::profile_directory. Memory is allocated only at the first call of
/// a size.
class call_times {
public:
    /// Records that a call begins.
    void begin() noexcept {
        call_ = 0;
        begin_ = clock::now();
    }
    /// Records that the call has been issued. @param bytes of the vector, or of all blocks together; 0: not timed
    void started(std::uint64_t call, collective what, std::int64_t bytes) noexcept {
        call_ = bytes > 0 ? call : 0;
        size_ = {what, bytes};
        returned_ = clock::now();
    }
    /// Records that the caller begins to wait for a call. Returns true if this is the latest call.
    bool wait_begins(std::uint64_t call) noexcept {
        if (call != call_) return false;
        waited_for_ = clock::now();
        return true;
    }
    /// Adds the latest call, which is complete, unless its caller did other work for a tenth of the time or more.
    void complete() {
        const std::chrono::duration<double> took = clock::now() - begin_, elsewhere = waited_for_ - returned_;
        if (elsewhere < 0.1 * took) add(size_.first, size_.second, took.count());
    }

    /// Adds the time of a call. @param seconds above 0
    void add(collective what, std::int64_t bytes, double seconds);

    /// Returns the lower quartile of the latest times of each size. The first call of a size does not count, since it
    /// makes the program. Sizes with a single call are left out.
    std::vector<profiled_call> quartiles() const;

private:
    using clock = std::chrono::steady_clock;
    static constexpr std::size_t latest = 64, most_sizes = 256;

    struct times {
        std::int64_t calls = 0;  // without the first
        bool begun = false;
        std::array<double, latest> seconds{};
    };

    clock::time_point begin_, returned_, waited_for_;
    std::uint64_t call_ = 0;  // number of the latest call; 0: none
    std::pair<collective, std::int64_t> size_;
    std::map<std::pair<collective, std::int64_t>, times> by_size_;  // at most most_sizes sizes
};

}  // namespace terrace::detail
