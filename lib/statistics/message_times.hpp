#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace terrace::detail {

/// When messages that followed one another between two ranks began, or when they were complete: the body of a control
/// message.
struct message_sample {
    static constexpr std::size_t most = 6;

    std::uint32_t first = 0;  ///< number of the first of them, among all long messages between the two
    std::uint16_t count = 0;
    std::uint16_t calls = 0;                   ///< call_counts::size_of their calls
    std::array<std::uint16_t, most> at{};      ///< since the window began [window / 65,536], ascending
    std::array<std::uint16_t, most> length{};  ///< [64 bytes]

    /// Returns when the message was [s since the window began]. @param i its number
    double time(std::size_t i) const noexcept;
    double bytes(std::size_t i) const noexcept { return 64.0 * length[i]; }
};

/// Notes when a rank's long messages with other nodes begin and are complete: the first ones of each window, for each
/// peer. All ranks have the same windows, by the clock of rank 0.
class message_times {
public:
    using clock = std::chrono::steady_clock;

    static constexpr std::chrono::microseconds window{256'000};
    static constexpr std::size_t least_bytes = 4 << 10;  ///< shorter messages say little of a link

    /// @param far by rank: it is on another node   @param every only each so manieth window counts
    message_times(std::vector<bool> far, std::uint32_t every);

    /// Says what time it is on rank 0: messages are counted before, and noted from now on.
    void set_ahead(clock::duration ahead);
    std::uint32_t window_of(clock::time_point now) const noexcept { return number_of(now + ahead_); }

    /// Returns true if messages of so many bytes with this rank are noted.
    bool notes(int peer, std::size_t bytes) const noexcept {
        return bytes >= least_bytes && far_[static_cast<std::size_t>(peer)];
    }
    /// A message has begun, or is complete. Allocates nothing. @param sends to the peer, or else from it   @param now
    /// says what time it is
    template <class Now>
    void note(int peer, bool sends, std::size_t bytes, int calls, Now now) noexcept {
        const std::uint32_t flow = 2 * static_cast<std::uint32_t>(peer) + (sends ? 0 : 1);
        const std::uint32_t number = numbers_[flow]++;  // both ends count messages that they do not note
        if (knows_time_) keep({now() + ahead_, flow, number, {}, static_cast<std::uint16_t>(calls)}, bytes);
    }

    /// Calls f(peer, sends, window, sample) for what has been noted and not been told.
    template <class F>
    void take(clock::time_point now, F f) {
        const auto tell = [&](std::uint32_t flow, part& p) {
            if (p.sample.count > 0 && may_tell(p.window))
                f(static_cast<int>(flow / 2), flow % 2 == 0, p.window, p.sample);
            p.sample = {};
            ++p.told;
        };
        for (const noted& n : noted_) {
            part& p = parts_[n.flow];
            if (p.window != number_of(n.at)) {
                tell(n.flow, p);
                p = {number_of(n.at)};
            }
            if (!p.sample_goes_on(n.number)) tell(n.flow, p);
            if (p.told < most_told) add(p.sample, n);
        }
        noted_.clear();
        const auto is_over = [open = window_of(now)](const auto& each) { return each.second.window != open; };
        for (auto& each : parts_)
            if (is_over(each)) tell(each.first, each.second);
        std::erase_if(parts_, is_over);
    }

private:
    static constexpr int most_told = 6;     // samples of a window, for each peer and direction
    static constexpr int most_in_all = 48;  // of a window

    struct noted {
        clock::time_point at{};              // by the clock of rank 0
        std::uint32_t flow = 0, number = 0;  // 2 * peer; 1 more: from it
        std::uint16_t length = 0, calls = 0;
    };
    // What has not been told of a window, for one peer and direction.
    struct part {
        std::uint32_t window = 0;
        int told = 0;
        message_sample sample{};

        bool sample_goes_on(std::uint32_t number) const noexcept {
            return sample.count == 0 || (sample.count < message_sample::most && number == sample.first + sample.count);
        }
    };

    static std::uint32_t number_of(clock::time_point at) noexcept {
        return static_cast<std::uint32_t>(at.time_since_epoch() / window);
    }
    void keep(noted n, std::size_t bytes) noexcept;
    static void add(message_sample& to, const noted& n) noexcept;
    bool may_tell(std::uint32_t window) noexcept {
        if (std::exchange(told_in_, window) != window) told_ = 0;
        return ++told_ <= most_in_all;
    }

    std::vector<bool> far_;
    std::uint32_t every_;
    std::vector<std::uint32_t> numbers_;   // of messages so far, by flow
    std::vector<noted> noted_;             // since the last take()
    std::map<std::uint32_t, part> parts_;  // by flow
    clock::duration ahead_{};
    bool knows_time_ = false;
    std::uint32_t told_in_ = 0;  // window
    int told_ = 0;               // samples
};

}  // namespace terrace::detail
