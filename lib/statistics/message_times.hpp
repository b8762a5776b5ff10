#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
    message_times(std::vector<bool> far, std::uint32_t every)
        : far_(std::move(far)), every_(every), numbers_(2 * far_.size()) {}

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

    /// Calls f(peer, sends, window, sample) for what has been noted in windows that are over.
    template <class F>
    void take(clock::time_point now, F f) {
        const std::uint32_t open = window_of(now);
        if (noted_.empty() || number_of(noted_.front().at) == open) return;
        std::ranges::stable_sort(noted_, {}, place);
        const noted_at end = std::ranges::find(noted_, open, [](const noted& each) { return number_of(each.at); });
        for (noted_at n = noted_.begin(), later = n; n != end; n = later) {
            later = end_of(n, end, [](const noted& each) { return number_of(each.at); });
            const int most = most_of_each(n, later);
            int left = most_of_all;
            for (noted_at next = n; n != later && left > 0; n = next) {
                next = end_of(n, later, place);
                left -= tell(n, next, std::min(most, left), f);
            }
        }
        noted_.erase(noted_.begin(), end);
    }

private:
    static constexpr int most_of_flow = 6, most_of_all = 48;  // samples of a window

    struct noted {
        clock::time_point at{};              // by the clock of rank 0
        std::uint32_t flow = 0, number = 0;  // 2 * peer; 1 more: from it
        std::uint16_t length = 0, calls = 0;
    };

    using noted_at = std::vector<noted>::const_iterator;

    static std::uint32_t number_of(clock::time_point at) noexcept {
        return static_cast<std::uint32_t>(at.time_since_epoch() / window);
    }
    static std::pair<std::uint32_t, std::uint32_t> place(const noted& n) noexcept { return {number_of(n.at), n.flow}; }
    // Returns where those end that have the key of the first.
    template <class Key>
    static noted_at end_of(noted_at n, noted_at end, Key key) noexcept {
        return std::find_if(n, end, [&](const noted& each) { return key(each) != key(*n); });
    }
    // Tells at most so many samples of a flow. Returns how many it told.
    template <class F>
    static int tell(noted_at n, noted_at end, int most, F& f) {
        const auto [window, flow] = place(*n);
        int told = 0;
        for (; n != end && told < most; ++told) {
            message_sample s{.first = n->number};
            for (; n != end && s.count < message_sample::most && n->number == s.first + s.count; ++n) add(s, *n);
            f(static_cast<int>(flow / 2), flow % 2 == 0, window, s);
        }
        return told;
    }
    // Returns how many samples each flow of a window may have, so that the last ones have some, too.
    static int most_of_each(noted_at n, noted_at end) noexcept {
        int flows = 0;
        for (; n != end; n = end_of(n, end, place)) ++flows;
        return std::clamp(most_of_all / flows, 1, most_of_flow);
    }
    void keep(noted n, std::size_t bytes) noexcept;
    static void add(message_sample& to, const noted& n) noexcept;

    std::vector<bool> far_;
    std::uint32_t every_;
    std::vector<std::uint32_t> numbers_;  // of messages so far, by flow
    std::vector<noted> noted_;            // that take() has not told
    clock::duration ahead_{};
    bool knows_time_ = false;
};

}  // namespace terrace::detail
