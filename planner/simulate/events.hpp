#pragma once

#include <cstdint>
#include <queue>
#include <utility>

namespace terrace::detail::sim {

/// One lane of one rank.
struct lane_id {
    int rank = 0, lane = 0;
};

/// Something that happens at a simulated time. Fields that a kind does not use are zero.
struct event {
    enum kind : std::uint8_t {
        handed_over,  ///< a sender's processor has handed a segment to a connection (subject, lane, instruction, bytes)
        passed_links,  ///< the first segment of a connection (subject) may have passed its links
        arrived,       ///< a segment of a connection (subject) has reached its receiver's lane
        worked,        ///< a rank (subject, lane) is through with its work for an instruction
        gathered,      ///< all ranks of a stage instance (subject, chunk) have come to its next round
        bucket_empty,  ///< the bucket of a link (subject, version) may have run out
    };

    double time = 0;  ///< [s]
    kind what = worked;
    int subject = 0;
    int lane = 0;
    std::uint32_t instruction = 0;
    std::uint32_t version = 0;
    double bytes = 0;
    std::int64_t chunk = 0;
};

/// Events to come, and the time now [s]. Of events of one time those that were added first come first.
class event_queue {
public:
    double now() const noexcept { return now_; }
    bool empty() const noexcept { return events_.empty(); }
    void add(const event& e) { events_.push({e, ++added_}); }

    /// Moves the time on to the next event.
    void advance() { now_ = events_.top().what.time; }
    /// Returns true while an event of this moment is left. Events that only rounding tells apart are of one moment.
    bool has_due() const { return !empty() && events_.top().what.time <= now_ * (1 + 1e-12) + 1e-15; }
    event take() {
        const event e = events_.top().what;
        events_.pop();
        return e;
    }

private:
    struct entry {
        event what;
        std::uint64_t order = 0;

        friend bool operator<(const entry& a, const entry& b) noexcept {
            return std::pair(b.what.time, b.order) < std::pair(a.what.time, a.order);  // the earliest on top
        }
    };

    std::priority_queue<entry> events_;
    std::uint64_t added_ = 0;
    double now_ = 0;
};

}  // namespace terrace::detail::sim
