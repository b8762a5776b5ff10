#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace terrace::detail {

/// When messages between two ranks began, or when they were complete, in one window: the body of a control message.
struct message_sample {
    static constexpr std::size_t most = 12;

    std::uint32_t before = 0;  ///< messages between the two before these
    std::uint16_t length = 0;  ///< of a message, on average [64 bytes]
    std::uint8_t count = 0;
    std::uint8_t calls = 0;                ///< call_counts::size_of their calls
    std::array<std::uint16_t, most> at{};  ///< since the window began [window / 65,536], ascending

    /// True if there may have been more.
    bool is_full() const noexcept { return count == most; }
    /// Returns when the message was [s since the window began]. @param i its number
    double time(std::size_t i) const noexcept;
};

/// Notes when a rank's long messages with other nodes begin and are complete, for a while in each window. All ranks
/// have the same windows, by the clock of rank 0. To note one allocates nothing.
class message_times {
public:
    using clock = std::chrono::steady_clock;

    static constexpr std::chrono::microseconds window{256'000};
    static constexpr std::size_t least_bytes = 4 << 10;  ///< shorter messages say little of a link

    /// @param far by rank: it is on another node   @param every only each so manieth window counts
    message_times(const std::vector<bool>& far, std::uint32_t every);

    /// Says what time it is on rank 0: messages are counted before, and noted from now on.
    void set_ahead(clock::duration ahead) noexcept {
        ahead_ = ahead;
        knows_time_ = true;
    }
    std::uint32_t window_of(clock::time_point now) const noexcept {
        return static_cast<std::uint32_t>((now + ahead_).time_since_epoch() / window);
    }

    void sent(int peer, std::size_t bytes, int calls, clock::time_point now) noexcept {
        note(2 * static_cast<std::size_t>(peer), bytes, calls, now);
    }
    void received(int peer, std::size_t bytes, int calls, clock::time_point now) noexcept {
        note(2 * static_cast<std::size_t>(peer) + 1, bytes, calls, now);
    }
    /// Returns true if messages of so many bytes with this rank are noted.
    bool notes(int peer, std::size_t bytes) const noexcept {
        return bytes >= least_bytes && far_[static_cast<std::size_t>(peer)];
    }

    /// Calls f(peer, sends, window, sample) for all that has been noted in windows that are over, once.
    template <class F>
    void take(clock::time_point now, F f) {
        const std::uint32_t open = window_of(now);
        for (std::size_t i = 0; i < flows_.size(); ++i)
            for (part& p : flows_[i].parts)
                if (p.sample.count > 0 && p.window != open) {
                    const part over = std::exchange(p, {});
                    f(static_cast<int>(i / 2), i % 2 == 0, over.window, finished(over));
                }
    }

private:
    struct part {
        std::uint32_t window = 0;
        std::uint64_t bytes = 0;
        message_sample sample{};
    };
    // Messages to a rank, or from it.
    struct flow {
        std::uint32_t messages = 0;
        std::array<part, 4> parts{};  // of the last windows
    };

    void note(std::size_t number, std::size_t bytes, int calls, clock::time_point now) noexcept;
    static message_sample finished(const part& p) noexcept;

    std::vector<bool> far_;
    std::uint32_t every_;
    std::vector<flow> flows_;
    clock::duration ahead_{};
    bool knows_time_ = false;
};

}  // namespace terrace::detail
