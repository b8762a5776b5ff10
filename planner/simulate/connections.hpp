#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "machine/devices.hpp"
#include "machine/rates.hpp"
#include "planner/simulate/events.hpp"
#include "planner/simulate/flows.hpp"

namespace terrace::detail::sim {

/// A segment of an instruction's data in flight.
struct segment {
    lane_id owner;
    std::uint32_t instruction = 0;
    double bytes = 0;
};

/// Connections between ranks, on which segments arrive in the order sent; and connections over a single link, for data
/// of stages in shared memory. All share the links (flows). A connection has one segment on its links at a time.
class connections {
public:
    connections(const hierarchy& machine, link_loads& loads, event_queue& events)
        : machine_(machine),
          loads_(loads),
          flows_(loads),
          events_(events),
          between_(at(machine.ranks())),
          over_(at(loads.size()), -1) {}

    struct endpoints {
        int from = -1, to = -1;  ///< ranks; -1: a single link
        double latency = 0;      ///< [s]
        double overhead = 0;     ///< processor time at each end [s]
        int copies = 0;          ///< number of times that a processor at each end reads or writes each byte
        double header = 0;       ///< of a message [B]
    };

    /// Returns the number of the connection, which is created if it is new.
    int between(int from, int to) {
        const auto [known, is_new] = between_[at(from)].try_emplace(to, static_cast<int>(all_.size()));
        if (is_new) {
            const int l = machine_.shape.common_level(from, to);
            const level& met = machine_.levels[at(l)];
            connection& c = all_.emplace_back();
            c.ends = {from, to, met.latency, met.overhead, through_memory(machine_, l) ? 2 : 0, header_of(met.medium)};
            flows_.add(loads_.path(from, to));
        }
        return known->second;
    }
    int over(int link) {
        int& number = over_[at(link)];
        if (number < 0) {
            number = static_cast<int>(all_.size());
            all_.emplace_back();
            flows_.add({&link, 1});
        }
        return number;
    }
    const endpoints& ends_of(int number) const { return all_[at(number)].ends; }

    /// Appends a segment to the queue of a connection.
    void enqueue(int number, const segment& s) {
        connection& c = all_[at(number)];
        c.waiting.push_back(s);
        if (c.waiting.size() == 1) begin(number, s);
    }
    /// Follows event::passed_links. Returns the segment that has passed all links; nothing if it now needs longer.
    std::optional<segment> take_passed(int number, double event_time) {
        connection& c = all_[at(number)];
        // Otherwise the event is from a time when the segment was faster.
        if (event_time != c.event_at) return {};
        if (c.end > event_time) {
            add_event(number, c);
            return {};
        }
        c.event_at = no_event;
        const segment s = c.waiting.front();
        c.waiting.erase(c.waiting.begin());
        flows_.end(number, events_.now());
        if (!c.waiting.empty()) begin(number, c.waiting.front());
        return s;
    }

    /// Records that the receiver's lane of a segment has issued its receive.
    void expect(int number, const segment& s) { all_[at(number)].expected.push_back(s); }
    /// Records that a segment has arrived for a lane of the receiver.
    void arrive(int number, int lane) { all_[at(number)].arrived.push_back(lane); }
    /// Returns the next segment of a lane that has arrived and is expected, and removes it.
    std::optional<segment> take_received(int number, int lane) {
        connection& c = all_[at(number)];
        const auto here = std::ranges::find(c.arrived, lane);
        const auto next = std::ranges::find(c.expected, lane, [](const segment& s) { return s.owner.lane; });
        if (here == c.arrived.end() || next == c.expected.end()) return {};
        const segment s = *next;
        c.arrived.erase(here);
        c.expected.erase(next);
        return s;
    }

    /// Shares the links anew. Called after all events of one moment.
    void share_links() {
        flows_.share(events_.now(), [&](int number, double end) {
            connection& c = all_[at(number)];
            c.end = end;
            if (end < c.event_at) add_event(number, c);
        });
    }
    /// Returns flows::shares().
    std::int64_t shares() const noexcept { return flows_.shares(); }

private:
    static constexpr double no_event = std::numeric_limits<double>::infinity();

    // Lists are short: all lanes together have few request slots.
    struct connection {
        endpoints ends;
        std::vector<segment> waiting;   // the first segment is on the links
        std::vector<segment> expected;  // receives that lanes have issued
        std::vector<int> arrived;       // lanes of the segments that have arrived
        double end = 0;                 // of the first segment at its current rate [s]
        double event_at = no_event;     // time of the event that checks whether the first segment has passed [s]
    };

    void begin(int number, const segment& s) {
        flows_.begin(number, s.bytes, all_[at(number)].ends.header, events_.now());
    }
    void add_event(int number, connection& c) {
        c.event_at = c.end;
        events_.add({.time = c.end, .subject = number, .what = event::passed_links});
    }

    const hierarchy& machine_;
    const link_loads& loads_;
    flows flows_;
    event_queue& events_;
    std::vector<std::map<int, int>> between_;  // numbers, by sender and receiver
    std::vector<int> over_;                    // by link; -1: none yet
    std::deque<connection> all_;               // by number, which is also the number of the flow
};

}  // namespace terrace::detail::sim
