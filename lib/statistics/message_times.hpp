#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace terrace::detail {

/// The times at which consecutive messages between two ranks began, or were complete: the body of a control message.
struct message_sample {
    static constexpr std::size_t most = 6;

    std::uint32_t first = 0;  ///< number of the first one, among all long messages between the two ranks
    std::uint16_t count = 0;
    std::uint16_t calls = 0;                   ///< call_counts::size_of() of their calls
    std::array<std::uint16_t, most> at{};      ///< times since the window began [window / 65,536], ascending
    std::array<std::uint16_t, most> length{};  ///< lengths of the messages [64 bytes]

    /// Returns the time of a message [s since the window began]. @param i its number in the sample
    double time(std::size_t i) const noexcept;
    double bytes(std::size_t i) const noexcept { return 64.0 * length[i]; }
};

/// Records when a rank's long messages with other nodes begin and are complete: the first ones of each window, for each
/// peer. All ranks have the same windows, by the clock of rank 0.
class message_times {
public:
    using clock = std::chrono::steady_clock;

    static constexpr std::chrono::microseconds window{256'000};
    static constexpr std::size_t least_bytes = 4 << 10;  ///< shorter messages show little about a link

    /// @param far by rank: true if it is on another node   @param every only one of this many windows is recorded
    message_times(std::vector<bool> far, std::uint32_t every)
        : far_(std::move(far)), every_(every), numbers_(2 * far_.size()) {}

    /// Sets how far the clock of rank 0 is ahead. Messages are counted before, and recorded from now on.
    void set_ahead(clock::duration ahead);
    std::uint32_t window_of(clock::time_point now) const noexcept { return number_of(now + ahead_); }

    /// Returns true if messages of this many bytes with this rank are recorded.
    bool notes(int peer, std::size_t bytes) const noexcept {
        return bytes >= least_bytes && far_[static_cast<std::size_t>(peer)];
    }
    /// Records that a message to the peer has begun, or that one from it is complete. Allocates nothing. @param sends
    /// true: to the peer, false: from it   @param now returns the current time
    template <class Now>
    void note(int peer, bool sends, std::size_t bytes, int calls, Now now) noexcept {
        const std::uint32_t flow = 2 * static_cast<std::uint32_t>(peer) + (sends ? 0 : 1);
        const std::uint32_t number = numbers_[flow]++;  // both ends also count messages that they do not record
        if (knows_time_) keep({now() + ahead_, flow, number, {}, static_cast<std::uint16_t>(calls)}, bytes);
    }

    /// Calls f(peer, sends, window, sample) for the records of windows that are over, and removes these records.
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
    static constexpr int most_of_flow = 6, most_of_all = 48;  // samples of a window: of one flow, of all flows

    struct noted {
        clock::time_point at{};              // by the clock of rank 0
        std::uint32_t flow = 0, number = 0;  // flow: 2 * peer, plus 1 for messages from the peer
        std::uint16_t length = 0, calls = 0;
    };

    using noted_at = std::vector<noted>::const_iterator;

    static std::uint32_t number_of(clock::time_point at) noexcept {
        return static_cast<std::uint32_t>(at.time_since_epoch() / window);
    }
    static std::pair<std::uint32_t, std::uint32_t> place(const noted& n) noexcept { return {number_of(n.at), n.flow}; }
    // Returns the end of the first elements that have equal keys.
    template <class Key>
    static noted_at end_of(noted_at n, noted_at end, Key key) noexcept {
        return std::find_if(n, end, [&](const noted& each) { return key(each) != key(*n); });
    }
    // Passes at most this many samples of a flow to f. Returns their number.
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
    // Returns how many samples each flow of a window may have. This leaves some for the last flows.
    static int most_of_each(noted_at n, noted_at end) noexcept {
        int flows = 0;
        for (; n != end; n = end_of(n, end, place)) ++flows;
        return std::clamp(most_of_all / flows, 1, most_of_flow);
    }
    void keep(noted n, std::size_t bytes) noexcept;
    static void add(message_sample& to, const noted& n) noexcept;

    std::vector<bool> far_;
    std::uint32_t every_;
    std::vector<std::uint32_t> numbers_;  // numbers of messages so far, by flow
    std::vector<noted> noted_;            // records that take() has not passed on
    clock::duration ahead_{};
    bool knows_time_ = false;
};

}  // namespace terrace::detail
