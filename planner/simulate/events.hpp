#pragma once

#include <cstdint>
#include <queue>

namespace terrace::detail::sim {

/// One lane of one rank.
struct lane_id {
    int rank = 0, lane = 0;
};

/// An event at a simulated time. Fields that a kind does not use are zero.
struct event {
    enum kind : std::uint8_t {
        posted,        ///< a sender's processor has passed a segment to a connection (subject, lane, instruction)
        passed_links,  ///< the first segment of a connection (subject) may have passed its links
        arrived,       ///< a segment of a connection (subject) has reached its receiver's lane
        worked,        ///< a rank (subject, lane) has finished its work for an instruction
        gathered,      ///< all ranks of a stage instance (subject, chunk) have reached its next round
    };

    double time = 0;           ///< [s]
    std::uint32_t number = 0;  ///< sequence number in its queue
    int subject = 0;
    int lane = 0;
    std::uint32_t instruction = 0;
    std::int32_t chunk = 0;
    kind what = worked;

    friend bool operator<(const event& a, const event& b) noexcept {  // the earliest on top
        return a.time > b.time || (a.time == b.time && a.number > b.number);
    }
};

/// Future events, and the current time [s]. Events of one time come in the order in which they were added.
class event_queue {
public:
    double now() const noexcept { return now_; }
    bool empty() const noexcept { return events_.empty(); }
    void add(event e) {
        e.number = ++added_;
        events_.push(e);
    }

    /// Returns the time of the next event [s]. There must be one.
    double next() const { return events_.top().time; }
    /// Advances the time to the next event.
    void advance() { now_ = next(); }
    /// Returns true while an event of this moment is left. Times that differ only by rounding are one moment.
    bool has_due() const { return !empty() && next() <= now_ * (1 + 1e-12) + 1e-15; }
    event take() {
        const event e = events_.top();
        events_.pop();
        return e;
    }

private:
    std::priority_queue<event> events_;
    std::uint32_t added_ = 0;
    double now_ = 0;
};

}  // namespace terrace::detail::sim
