#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace terrace::detail {

/// Since when a peer's kernel has acknowledged nothing of what a socket has sent, told from counts that may be read
/// long after each other. Bytes may always be on the way, such as replies that another thread sends: what counts is
/// whether any has been acknowledged since.
class acknowledgement {
public:
    using time_point = std::chrono::steady_clock::time_point;

    /// A byte is sent.   @param acknowledged bytes that have been on this connection
    void sent(time_point now, std::uint64_t acknowledged) noexcept {
        if (missing_) return;
        missing_ = now;
        seen_ = acknowledged;
    }

    /// @param outstanding bytes that are sent and not acknowledged   @param acknowledged as in sent()
    void look(time_point now, int outstanding, std::uint64_t acknowledged) noexcept {
        const bool more = std::exchange(seen_, acknowledged) != acknowledged;
        if (!missing_ || (outstanding > 0 && !more)) return;
        last_ = std::exchange(missing_, outstanding > 0 ? std::optional(now) : std::nullopt);
    }

    /// Since when bytes are outstanding of which none is known to be acknowledged; none where all are.
    std::optional<time_point> missing_since() const noexcept { return missing_; }
    /// After which time something was acknowledged last.
    std::optional<time_point> last() const noexcept { return last_; }

private:
    std::optional<time_point> missing_{}, last_{};
    std::uint64_t seen_ = 0;
};

}  // namespace terrace::detail
