#include "planner/stage_time.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/index.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

double time_of(const std::vector<message_load>& messages, double bytes) {
    double time = 0;
    for (const message_load& m : messages) time += m.time(bytes);
    return time;
}

double together(const phase_load& p, double wire, double processor) {
    return p.in_memory || p.side_by_side ? std::max(wire, processor) : wire + processor;
}

// Returns the time of one part over a hop. Even with several rings, the part is on the wire before a processor has it.
double travel_time(const phase_load& p, const ring_hop& h, double bytes) {
    const double wire = h.wire * bytes, processor = h.message.time(bytes) + h.memory * bytes;
    return h.latency + (p.in_memory ? std::max(wire, processor) : wire + processor);
}

}  // namespace

double processor_load::time(double bytes) const {
    return std::max(time_of(sent, bytes), time_of(received, bytes)) + memory * bytes;
}

double stage_price::time(double bytes) const {
    double time = 0;
    for (const auto& p : phases) time += phase_time(*p, bytes);
    return time;
}

double stage_price::busiest_link() const {
    double sum = 0;
    for (const auto& p : phases)
        if (!p->links.empty()) sum += std::ranges::max_element(p->links, {}, &link_use::vectors)->vectors;
    return sum;
}

void set_loads(phase_load& p, std::vector<processor_load> of_samples, std::span<const double> weights) {
    std::map<processor_load, int> kinds;
    for (std::size_t i = 0; i < of_samples.size(); ++i) {
        const auto [kind, is_new] = kinds.try_emplace(std::move(of_samples[i]), static_cast<int>(kinds.size()));
        if (is_new) {
            p.loads.push_back(kind->first);
            p.ranks.push_back(0);
        }
        p.ranks[at(kind->second)] += weights[i];
        p.load_of_sample.push_back(kind->second);
    }
    // The times of all loads, and the loads that are the longest at some size.
    for (const processor_load& load : p.loads) {
        std::vector<double>& times = p.times.emplace_back();
        for (std::size_t i = 0; i < policy.sizes(); ++i)
            times.push_back(load.time(static_cast<double>(policy.size(i))));
    }
    std::set<int> slowest;
    for (std::size_t i = 0; i < policy.sizes(); ++i) {
        const auto most = std::ranges::max_element(p.times, {}, [&](const auto& times) { return times[i]; });
        slowest.insert(static_cast<int>(most - p.times.begin()));
    }
    p.slowest.assign(slowest.begin(), slowest.end());
}

double slowest_rank_time(const phase_load& p, double bytes) {
    double time = 0;
    for (const int load : p.slowest) time = std::max(time, p.loads[at(load)].time(bytes));
    return time;
}

double rank_time(const phase_load& p, double bytes) {
    return std::max(slowest_rank_time(p, bytes), time_of(p.path, bytes) + p.path_memory * bytes);
}

double wire_time(const phase_load& p, double bytes) { return std::max(p.wire * bytes, p.in_turn * bytes - p.overlap); }

double step_time(const phase_load& p, double bytes) {
    const double wire = wire_time(p, bytes), processor = rank_time(p, bytes), at_once = std::max(1, p.sent_at_once);
    return p.startups + std::max(together(p, wire + p.headers / at_once, processor),
                                 together(p, wire + p.headers, processor / at_once));
}

double lap_time(const phase_load& p, double bytes) {
    if (p.lap.empty()) return 0;
    double slowest = 0, time = 0, most_in_line = 0;
    for (const ring_hop& h : p.lap) {
        slowest = std::max(slowest, together(p, h.wire * bytes, h.message.time(bytes) + h.memory * bytes));
        time += h.count * travel_time(p, h, bytes);
    }
    for (std::size_t height = 0; height < p.lap.front().within.size(); ++height) {
        double in_line = 0;
        for (const ring_hop& h : p.lap) in_line += h.within[height] * (slowest - travel_time(p, h, bytes));
        most_in_line = std::max(most_in_line, in_line);
    }
    return time + most_in_line;
}

double phase_time(const phase_load& p, double bytes) { return std::max(step_time(p, bytes), lap_time(p, bytes)); }

double startup_time(const phase_load& p) {
    double around = 0;
    for (const ring_hop& h : p.lap) around += h.count * h.latency;
    return std::max(p.startups, around);
}

double held_time(const phase_load& p, double bytes) {
    return p.held_startups + together(p, p.held_wire * bytes, slowest_rank_time(p, bytes));
}

}  // namespace terrace::detail
