#include "planner/simulate/connections.hpp"

#include "machine/devices.hpp"

namespace terrace::detail::sim {

connections::connections(const hierarchy& machine, int lanes, link_loads& loads, event_queue& events)
    : machine_(machine),
      lanes_(lanes),
      flows_(loads),
      events_(events),
      between_(at(machine.ranks())),
      over_(at(loads.size()), -1) {}

int connections::between(int from, int to) {
    const auto [known, is_new] = between_[at(from)].try_emplace(to, static_cast<int>(all_.size()));
    if (is_new) {
        const int l = machine_.shape.common_level(from, to);
        const level& met = machine_.levels[at(l)];
        connection& c = all_.emplace_back();
        c.ends = {from, to, met.latency, met.overhead, through_memory(machine_, l) ? 2 : 0};
        c.lanes.resize(at(lanes_));
        flows_.add(from, to);
    }
    return known->second;
}

int connections::over(int link) {
    int& number = over_[at(link)];
    if (number < 0) {
        number = static_cast<int>(all_.size());
        all_.emplace_back();
        flows_.add(link);
    }
    return number;
}

void connections::enqueue(int number, const segment& s) {
    connection& c = all_[at(number)];
    c.waiting.push_back(s);
    if (c.waiting.size() == 1) flows_.begin(number, s.bytes, events_.now());
}

// An event that is no longer the connection's own comes from a time when its segment was faster.
std::optional<segment> connections::take_passed(int number, double event_time) {
    connection& c = all_[at(number)];
    if (event_time != c.event_at) return {};
    if (c.end > event_time) {
        add_event(number, c);
        return {};
    }
    c.event_at = no_event;
    const segment s = c.waiting.front();
    c.waiting.erase(c.waiting.begin());
    flows_.end(number, events_.now());
    if (!c.waiting.empty()) flows_.begin(number, c.waiting.front().bytes, events_.now());
    return s;
}

std::optional<segment> connections::take_received(int number, int lane) {
    receiver& r = all_[at(number)].lanes[at(lane)];
    if (r.arrived == 0 || r.expected.empty()) return {};
    const segment s = r.expected.front();
    r.expected.erase(r.expected.begin());
    --r.arrived;
    return s;
}

void connections::share_links() {
    flows_.share(events_.now(), [&](int number, double end) {
        connection& c = all_[at(number)];
        c.end = end;
        if (end < c.event_at) add_event(number, c);
    });
}

void connections::add_event(int number, connection& c) {
    c.event_at = c.end;
    events_.add({.time = c.end, .what = event::passed_links, .subject = number});
}

}  // namespace terrace::detail::sim
