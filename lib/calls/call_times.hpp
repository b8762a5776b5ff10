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

/// What calls took, by collective and size: for options::profile_directory. Allocates at the first call of a size
/// alone.
class call_times {
public:
    /// A call begins.
    void begin() noexcept {
        call_ = 0;
        begin_ = clock::now();
    }
    /// It has a number, and goes on by itself. @param bytes of the vector, or of all blocks together
    void started(std::uint64_t call, collective what, std::int64_t bytes) noexcept {
        call_ = bytes > 0 ? call : 0;
        size_ = {what, bytes};
        returned_ = clock::now();
    }
    /// Its caller begins to wait. Returns true if the call is the latest one.
    bool wait_begins(std::uint64_t call) noexcept {
        if (call != call_) return false;
        waited_for_ = clock::now();
        return true;
    }
    /// The latest call is complete. Adds it, unless its caller did something else for a tenth of its time.
    void complete() {
        const std::chrono::duration<double> took = clock::now() - begin_, elsewhere = waited_for_ - returned_;
        if (elsewhere < 0.1 * took) add(size_.first, size_.second, took.count());
    }

    /// Adds what a call took. @param seconds above 0
    void add(collective what, std::int64_t bytes, double seconds);

    /// Returns the lower quartile of each size's latest calls, without its first one, which makes the program. Sizes
    /// that were called once are left out.
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
    std::uint64_t call_ = 0;  // the latest one; 0: none
    std::pair<collective, std::int64_t> size_;
    std::map<std::pair<collective, std::int64_t>, times> by_size_;  // further sizes are not kept
};

}  // namespace terrace::detail
