#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "machine/hierarchy.hpp"
#include "planner/simulate/events.hpp"
#include "planner/simulate/flows.hpp"

namespace terrace::detail::sim {

/// A part of an instruction's data, on its way.
struct segment {
    lane_id owner;
    std::uint32_t instruction = 0;
    double bytes = 0;
};

/// Connections between ranks, on which segments arrive in the order sent, and connections over a single link, for the
/// data of stages in shared memory. All of them share the links (flows). A connection carries one segment at a time.
class connections {
public:
    /// @param lanes of each rank
    connections(const hierarchy& machine, int lanes, link_loads& loads, event_queue& events);

    struct endpoints {
        int from = -1, to = -1;  ///< ranks; -1: a single link
        double latency = 0;      ///< [s]
        double overhead = 0;     ///< [s] of a processor at each end
        int copies = 0;          ///< times that a processor at each end reads or writes a byte
    };

    /// Returns the number of the connection.
    int between(int from, int to);
    int over(int link);
    const endpoints& ends_of(int number) const { return all_[at(number)].ends; }

    /// Puts a segment behind those that the connection carries.
    void enqueue(int number, const segment& s);
    /// Follows event::passed_links. Returns the segment that has passed all links; nothing if it needs longer by now.
    std::optional<segment> take_passed(int number, double event_time);

    /// A lane of the receiver expects a segment.
    void expect(int number, int lane, const segment& s) { all_[at(number)].lanes[at(lane)].expected.push_back(s); }
    /// A segment has arrived for a lane of the receiver.
    void arrive(int number, int lane) { ++all_[at(number)].lanes[at(lane)].arrived; }
    /// Returns the next segment of a lane that has arrived and is expected.
    std::optional<segment> take_received(int number, int lane);

    /// Shares the links anew after all events of a moment.
    void share_links();
    /// Returns flows::shares().
    std::int64_t shares() const noexcept { return flows_.shares(); }

private:
    static constexpr double no_event = std::numeric_limits<double>::infinity();

    // Lists are as short as request slots are few.
    struct receiver {
        std::vector<segment> expected;
        int arrived = 0;
    };
    struct connection {
        endpoints ends;
        std::vector<segment> waiting;  // the first one is on the links
        std::vector<receiver> lanes;
        double end = 0;              // of the first one, at its rate of now
        double event_at = no_event;  // when an event looks whether it has passed
    };

    void add_event(int number, connection& c);

    const hierarchy& machine_;
    int lanes_;
    flows flows_;
    event_queue& events_;
    std::vector<std::map<int, int>> between_;  // numbers, by sender and receiver
    std::vector<int> over_;                    // by link; -1: none yet
    std::deque<connection> all_;               // by number, which is that of its flow
};

}  // namespace terrace::detail::sim
