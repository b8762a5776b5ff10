#include "planner/price.hpp"

#include <map>
#include <set>
#include <utility>

#include "machine/link_rows.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

price::price(const link_rows& rows, const samples& ranks, collective what, std::vector<stage_pass> passes, double limit)
    : what_(what), limit_(limit), passes_(std::move(passes)) {
    for (const double weight : ranks.weights()) ranks_ += weight;
    for (const stage_pass& each : passes_) {
        network_part_ = std::max(network_part_, each.load->network_part * each.part);
        sent_at_once_ = std::max(sent_at_once_, each.load->sent_at_once);
        largest_part_ = std::max(largest_part_, each.load->largest_part * each.part);
    }
    find_startups();
    find_busiest_links(rows);
    find_busiest_ranks(ranks.count());
}

void price::find_startups() {
    std::map<int, double> of_route;
    for (const stage_pass& each : passes_) of_route[each.route] += startup_time(*each.load);
    const double of_all = of_route[0];
    for (const auto& [route, time] : of_route) startups_ = std::max(startups_, of_all + (route == 0 ? 0 : time));
}

// Sums the vectors of all phases on each link, in each direction. The busier direction counts for a link.
void price::find_busiest_links(const link_rows& rows) {
    struct total {
        double vectors = 0, time = 0;
    };
    std::map<int, total> links;
    for (const stage_pass& each : passes_)
        for (const link_use& l : each.load->links) {
            total& of = links[l.link];
            of.vectors += each.part * l.vectors;
            of.time += each.part * l.time;
        }
    for (int row = 0; row < rows.count(); ++row) links_.push_back({.row = row});
    for (const auto& [link, of] : links) {
        link_cost& busiest = links_[at(rows.row_of(link))];
        if (of.time <= busiest.time * (1 + rounding)) continue;
        busiest = {.row = busiest.row, .child = rows.member_of(link), .bytes = of.vectors, .time = of.time};
        link_time_ = std::max(link_time_, busiest.time);
    }
}

// Finds the busiest ranks at the sizes of rules. Between these sizes, the busiest rank differs too little to matter.
void price::find_busiest_ranks(std::size_t samples) {
    std::set<std::vector<int>> kinds;
    for (std::size_t i = 0; i < samples; ++i) {
        std::vector<int> kind;
        for (const stage_pass& each : passes_) kind.push_back(each.load->load_of_sample[i]);
        kinds.insert(std::move(kind));
    }
    std::set<const std::vector<int>*> busiest;
    for (std::size_t size = 0; size < policy.sizes(); ++size) {
        const std::vector<int>* most = nullptr;
        double longest = 0;
        for (const std::vector<int>& kind : kinds) {
            double time = 0;
            for (std::size_t l = 0; l < kind.size(); ++l) {
                const stage_pass& each = passes_[l];
                time += each.part == 1 ? each.load->times[at(kind[l])][size]
                                       : each.time_of(kind[l], static_cast<double>(policy.size(size)));
            }
            if (most == nullptr || time > longest * (1 + rounding)) most = &kind, longest = time;
        }
        if (busiest.insert(most).second) busiest_.push_back(*most);
    }
}

// Returns the time of the rank with the most work in all phases together.
double price::busiest_processor_time(double bytes) const {
    double most = 0;
    for (const std::vector<int>& kind : busiest_) {
        double sum = 0;
        for (std::size_t l = 0; l < kind.size(); ++l) sum += passes_[l].time_of(kind[l], bytes);
        most = std::max(most, sum);
    }
    return most;
}

double price::effort(double bytes, std::int64_t chunk) const {
    const double c = chunks_of(bytes, chunk);
    double average = 0;
    for (const stage_pass& each : passes_)
        for (int load = 0; load < static_cast<int>(each.load->loads.size()); ++load)
            average += each.load->ranks[at(load)] / ranks_ * each.time_of(load, bytes / c);
    return c * (busiest_processor_time(bytes / c) + average);
}

double price::messages(double bytes, std::int64_t chunk) const {
    const double c = chunks_of(bytes, chunk);
    double of_chunk = 0;
    for (const stage_pass& each : passes_)
        for (std::size_t load = 0; load < each.load->loads.size(); ++load) {
            double sent = 0;
            for (const message_load& m : each.load->loads[load].sent)
                sent += m.count * m.segments(bytes / c * each.part);
            of_chunk += each.load->ranks[load] * std::max(sent, 1.0);
        }
    return c * of_chunk;
}

// Returns the route that is the longest for a chunk of this size; 0 if there are no routes.
int price::longest_route(double bytes) const {
    std::map<int, double> times;
    for (const stage_pass& each : passes_)
        if (each.route > 0) times[each.route] += phase_time(*each.load, bytes * each.part);
    return times.empty() ? 0 : std::ranges::max_element(times, {}, [](const auto& t) { return t.second; })->first;
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
    // On its way from or to a root, a chunk occupies one rank after the other, and leaves the others' lanes free.
    p.lane_time = 0;
    for (const stage_pass& l : passes_) p.lane_time += held_time(*l.load, each * l.part);
    return p;
}

// Returns the time of one chunk: the longest route, plus the processor time of the others, which run in parallel on the
// same processors. Long messages of all routes wait for the same request slots, so more than the wires of the longest
// route may count.
double price::chunk_time(double bytes, int longest) const {
    double sum = 0, in_turn = 0, wires_of_longest = 0;
    for (const stage_pass& each : passes_) {
        const bool shows = each.route == 0 || each.route == longest;
        const double own = bytes * each.part;
        sum += shows ? phase_time(*each.load, own) : rank_time(*each.load, own);
        if (each.route == 0) continue;
        in_turn += each.load->in_turn * own - each.load->overlap;
        if (shows) wires_of_longest += wire_time(*each.load, own);
    }
    return longest == 0 ? sum : sum + std::max(0.0, in_turn - wires_of_longest);
}

// Returns the idle time of the busiest link of a ring while a part is on long hops. Other chunks use this time, but
// only if there is one stage: other stages would occupy the links.
double price::idle_time(double bytes) const {
    double idle = 0;
    for (const stage_pass& each : passes_) {
        if (each.stage > 0) return 0;
        idle += phase_time(*each.load, bytes * each.part) - step_time(*each.load, bytes * each.part);
    }
    return idle;
}

prediction price::explain(double bytes, int lanes, std::int64_t chunk) const {
    prediction p;
    p.links = links_;
    for (const stage_pass& each : passes_) p.stages.resize(std::max(p.stages.size(), at(each.stage) + 1));
    if (bytes > 0) {
        const double c = chunks_of(bytes, chunk);
        const int longest = longest_route(bytes / c);
        p.time = time(bytes, lanes, chunk);
        for (const stage_pass& each : passes_) {
            if (each.route != 0 && each.route != longest) continue;
            p.stages[at(each.stage)].time += phase_time(*each.load, bytes / c * each.part);
            p.stages[at(each.stage)].latency += startup_time(*each.load);
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
