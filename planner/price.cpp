#include "planner/price.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/index.hpp"
#include "machine/link_rows.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

price::price(const link_rows& rows, const samples& ranks, collective what, std::vector<leg> legs, double limit)
    : what_(what), limit_(limit), legs_(std::move(legs)) {
    for (const double weight : ranks.weights()) ranks_ += weight;
    for (const leg& each : legs_)
        for (const auto& p : each.cost->phases) {
            phases_.push_back(p.get());
            network_part_ = std::max(network_part_, p->network_part);
            largest_part_ = std::max(largest_part_, p->largest_part);
        }
    find_startups();
    find_busiest_links(rows);
    find_busiest_ranks(ranks.count());
}

void price::find_startups() {
    std::map<int, double> of_route;
    for (const leg& each : legs_)
        for (const auto& p : each.cost->phases) of_route[each.route] += startup_time(*p);
    const double of_all = of_route[0];
    for (const auto& [route, time] : of_route) startups_ = std::max(startups_, of_all + (route == 0 ? 0 : time));
}

// All phases load the same links: their vectors add up, in each direction. The busier one speaks for a link.
void price::find_busiest_links(const link_rows& rows) {
    struct total {
        double vectors = 0, time = 0;
    };
    std::map<int, total> links;
    for (const phase_load* p : phases_)
        for (const link_use& l : p->links) {
            total& of = links[l.link];
            of.vectors += l.vectors;
            of.time += l.vectors * p->slowness[at(rows.level(rows.row_of(l.link)))] / rows.rate(l.link);
        }
    for (int row = 0; row < rows.count(); ++row) links_.push_back({.row = row});
    for (const auto& [link, of] : links) {
        link_cost& busiest = links_[at(rows.row_of(link))];
        if (of.time <= busiest.time * (1 + rounding)) continue;
        busiest = {.row = busiest.row, .child = rows.member_of(link), .bytes = of.vectors, .time = of.time};
        link_time_ = std::max(link_time_, busiest.time);
    }
}

// Finds them at the sizes of rules: between two of them the busiest rank differs too little to matter.
void price::find_busiest_ranks(std::size_t samples) {
    std::set<std::vector<int>> kinds;
    for (std::size_t i = 0; i < samples; ++i) {
        std::vector<int> kind;
        for (const phase_load* p : phases_) kind.push_back(p->load_of_sample[i]);
        kinds.insert(std::move(kind));
    }
    std::set<const std::vector<int>*> busiest;
    for (std::size_t size = 0; size < policy.sizes(); ++size) {
        const std::vector<int>* most = nullptr;
        double longest = 0;
        for (const std::vector<int>& kind : kinds) {
            double time = 0;
            for (std::size_t p = 0; p < kind.size(); ++p) time += phases_[p]->times[at(kind[p])][size];
            if (most == nullptr || time > longest * (1 + rounding)) most = &kind, longest = time;
        }
        if (busiest.insert(most).second) busiest_.push_back(*most);
    }
}

// Returns the time of the rank that has the most to do in all phases together.
double price::busiest_processor_time(double bytes) const {
    double most = 0;
    for (const std::vector<int>& kind : busiest_) {
        double sum = 0;
        for (std::size_t p = 0; p < kind.size(); ++p) sum += phases_[p]->loads[at(kind[p])].time(bytes);
        most = std::max(most, sum);
    }
    return most;
}

double price::effort(double bytes, std::int64_t chunk) const {
    const double c = chunks_of(bytes, chunk);
    double average = 0;
    for (const phase_load* p : phases_)
        for (std::size_t load = 0; load < p->loads.size(); ++load)
            average += p->ranks[load] / ranks_ * p->loads[load].time(bytes / c);
    return c * (busiest_processor_time(bytes / c) + average);
}

double price::messages(double bytes, std::int64_t chunk) const {
    const double c = chunks_of(bytes, chunk);
    double of_chunk = 0;
    for (const phase_load* p : phases_)
        for (std::size_t load = 0; load < p->loads.size(); ++load) {
            double sent = 0;
            for (const message_load& m : p->loads[load].sent) sent += m.count * m.segments(bytes / c);
            of_chunk += p->ranks[load] * std::max(sent, 1.0);
        }
    return c * of_chunk;
}

// The route that takes a chunk of so many bytes the longest; 0 where there are none.
int price::longest_route(double bytes) const {
    std::map<int, double> times;
    for (const leg& each : legs_)
        for (const auto& p : each.cost->phases)
            if (each.route > 0) times[each.route] += phase_time(*p, bytes);
    const auto longer = [](const auto& a, const auto& b) { return a.second < b.second; };
    return times.empty() ? 0 : std::max_element(times.begin(), times.end(), longer)->first;
}

double price::at_least(double bytes) const {
    return std::max({startups_, link_time_ * bytes, busiest_processor_time(bytes), limit_ * bytes});
}

pipeline price::in_chunks(double bytes, std::int64_t chunk) const {
    pipeline p{.chunks = chunks_of(bytes, chunk), .limit = limit_ * bytes};
    const double each = bytes / p.chunks;
    p.busiest = std::max(link_time_ * each, busiest_processor_time(each));
    p.idle = idle_time(each);
    const int longest = longest_route(each);
    p.chunk_time = chunk_time(each, longest);
    if (longest > 0) p.chunk_time = std::max(p.chunk_time, p.busiest);
    p.lane_time = p.chunk_time;
    if (!row_of(what_).has_root()) return p;
    // On its way from or to a root a chunk is with one rank after the other, and leaves each one's lane free.
    p.lane_time = 0;
    for (const phase_load* phase : phases_) p.lane_time += held_time(*phase, each);
    return p;
}

// The time of one chunk: the longest route, and the processor time of the others, which run beside it on the same
// processors. All routes' long messages wait for the same request slots, so that more than the longest route's wires
// may show.
double price::chunk_time(double bytes, int longest) const {
    double sum = 0, in_turn = 0, wires_of_longest = 0;
    for (const leg& each : legs_)
        for (const auto& p : each.cost->phases) {
            const bool shows = each.route == 0 || each.route == longest;
            sum += shows ? phase_time(*p, bytes) : rank_time(*p, bytes);
            if (each.route == 0) continue;
            in_turn += p->in_turn * bytes - p->overlap;
            if (shows) wires_of_longest += wire_time(*p, bytes);
        }
    return longest == 0 ? sum : sum + std::max(0.0, in_turn - wires_of_longest);
}

// Where a stage is alone, other chunks fill the gaps that a part on long hops leaves on a ring's busiest link. Other
// stages would be in their way.
double price::idle_time(double bytes) const {
    double idle = 0;
    if (std::any_of(legs_.begin(), legs_.end(), [](const leg& each) { return each.stage > 0; })) return idle;
    for (const phase_load* p : phases_) idle += phase_time(*p, bytes) - step_time(*p, bytes);
    return idle;
}

prediction price::explain(double bytes, int lanes, std::int64_t chunk) const {
    prediction p;
    p.links = links_;
    for (const leg& each : legs_) p.stages.resize(std::max(p.stages.size(), at(each.stage) + 1));
    if (bytes > 0) {
        const double c = chunks_of(bytes, chunk);
        const int longest = longest_route(bytes / c);
        p.time = time(bytes, lanes, chunk);
        for (const leg& each : legs_) {
            if (each.route != 0 && each.route != longest) continue;
            stage_cost& s = p.stages[at(each.stage)];
            s.time += each.cost->time(bytes / c);
            for (const auto& phase : each.cost->phases) s.latency += startup_time(*phase);
        }
        p.cpu_time = c * busiest_processor_time(bytes / c);
    }
    for (link_cost& l : p.links) {
        l.bytes *= bytes;
        l.time *= bytes;
    }
    return p;
}

}  // namespace terrace::detail
