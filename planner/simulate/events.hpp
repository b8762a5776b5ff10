#pragma once

#include <cstdint>
#include <queue>
#include <vector>

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
    };

    double time = 0;  ///< [s]
    kind what = worked;
    int subject = 0;
    int lane = 0;
    std::uint32_t instruction = 0;
    double bytes = 0;
    std::int64_t chunk = 0;
};

/// Events to come, and the time now [s]. Of events of one time those that were added first come first.
class event_queue {
public:
    double now() const noexcept { return now_; }
    bool empty() const noexcept { return order_.empty(); }
    void add(const event& e) {
        std::uint32_t where = static_cast<std::uint32_t>(events_.size());
        if (free_.empty()) events_.push_back(e);
        else events_[where = free_.back()] = e, free_.pop_back();
        order_.push({e.time, ++added_, where});
    }

    /// Returns the time of the next event [s]. There must be one.
    double next() const { return order_.top().time; }
    /// Moves the time on to the next event.
    void advance() { now_ = next(); }
    /// Returns true while an event of this moment is left. Events that only rounding tells apart are of one moment.
    bool has_due() const { return !empty() && order_.top().time <= now_ * (1 + 1e-12) + 1e-15; }
    event take() {
        const std::uint32_t where = order_.top().where;
        order_.pop();
        free_.push_back(where);
        return events_[where];
    }

private:
    struct entry {
        double time = 0;
        std::uint64_t number = 0;
        std::uint32_t where = 0;  // in events_

        friend bool operator<(const entry& a, const entry& b) noexcept {  // the earliest on top
            return a.time > b.time || (a.time == b.time && a.number > b.number);
        }
    };

    std::priority_queue<entry> order_;
    std::vector<event> events_;
    std::vector<std::uint32_t> free_;  // places in events_
    std::uint64_t added_ = 0;
    double now_ = 0;
};

}  // namespace terrace::detail::sim
