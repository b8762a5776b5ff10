#include "planner/cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/hierarchy_yaml.hpp"
#include "base/index.hpp"
#include "base/partition.hpp"
#include "base/wire.hpp"
#include "plan/routes.hpp"

namespace terrace {

namespace {

// Powers of two that plans are made for.
constexpr std::size_t sizes = std::bit_width(static_cast<std::uint64_t>(largest_size / smallest_size));

double segments_of(const message_load& m, double bytes) {
    return m.whole ? 1 : std::ceil(m.part * bytes / static_cast<double>(wire_segment));
}

double overhead_of(const message_load& m, double bytes) { return m.count * m.overhead * segments_of(m, bytes); }

double overheads(const std::vector<message_load>& messages, double bytes) {
    double time = 0;
    for (const message_load& m : messages) time += overhead_of(m, bytes);
    return time;
}

int size_of_lap(const std::vector<ring_hop>& lap) {
    int hops = 0;
    for (const ring_hop& h : lap) hops += h.count;
    return hops;
}

double slowest(const phase_cost& p, double bytes) {
    double time = 0;
    for (const int load : p.slowest) time = std::max(time, p.loads[at(load)].time(bytes));
    return time;
}

// How long all ranks' work takes the cores that they share [s].
double crowded(const phase_cost& p, double bytes) {
    double work = 0;
    for (std::size_t load = 0; p.cores > 0 && load < p.loads.size(); ++load)
        work += p.ranks[load] * p.loads[load].work(bytes);
    return p.cores > 0 ? work / p.cores : 0;
}

// A chain busies nobody for long, but what its processors do adds up along it.
double own_processor_of(const phase_cost& p, double bytes) {
    return std::max(slowest(p, bytes), overheads(p.path, bytes) + p.path_memory * bytes);
}

double processors_of(const phase_cost& p, double bytes) {
    return std::max(own_processor_of(p, bytes), crowded(p, bytes));
}

// Long messages, which take all request slots, go one after the other, even where they take different links.
double wire_of(const phase_cost& p, double bytes) { return std::max(p.data * bytes, p.in_turn * bytes - p.overlap); }

double together(const phase_cost& p, double wire, double processor) {
    return p.in_memory ? std::max(wire, processor) : wire + processor;
}

// Cores that all ranks share are busy with some while others wait for their messages.
double standing_of(const phase_cost& p, double bytes) {
    return p.latency + std::max(together(p, wire_of(p, bytes), own_processor_of(p, bytes)), crowded(p, bytes));
}

// What goes from hop to hop; where it is on several hops in a row, those inside a domain of some height, it may as well
// be in line before a slower one.
double lap_of(const phase_cost& p, double bytes) {
    if (p.lap.empty()) return 0;
    const auto passing = [&](const ring_hop& h) {
        return together(p, h.data * bytes, overhead_of(h.message, bytes) + h.memory * bytes);
    };
    double in_line = 0, time = 0, most = 0;
    for (const ring_hop& h : p.lap) {
        in_line = std::max(in_line, passing(h));
        time += h.count * (h.latency + passing(h));
    }
    for (std::size_t height = 0; height < p.lap.front().within.size(); ++height) {
        double longer = 0;
        for (const ring_hop& h : p.lap) longer += h.within[height] * (in_line - (h.latency + passing(h)));
        most = std::max(most, longer);
    }
    return time + most;
}

double time_of(const phase_cost& p, double bytes) { return std::max(standing_of(p, bytes), lap_of(p, bytes)); }

double startups_of(const phase_cost& p) {
    double around = 0;
    for (const ring_hop& h : p.lap) around += h.count * h.latency;
    return std::max(p.latency, around);
}

// As long of that as one rank takes part.
double held_of(const phase_cost& p, double bytes) {
    return p.held_latency + std::max(together(p, p.held_data * bytes, slowest(p, bytes)), crowded(p, bytes));
}

// Those loads that take the longest at some size.
void find_slowest(phase_cost& p) {
    p.times.clear();
    for (const cpu_load& load : p.loads) {
        std::vector<double>& times = p.times.emplace_back();
        for (std::int64_t bytes = smallest_size; bytes <= largest_size; bytes *= 2)
            times.push_back(load.time(static_cast<double>(bytes)));
    }
    std::set<int> slowest;
    for (std::size_t size = 0; size < sizes; ++size) {
        const auto slower = [&](const auto& a, const auto& b) { return a[size] < b[size]; };
        const auto most = std::max_element(p.times.begin(), p.times.end(), slower);
        slowest.insert(static_cast<int>(most - p.times.begin()));
    }
    p.slowest.assign(slowest.begin(), slowest.end());
}

// By sample, each of which stands for so many ranks.
void set_loads(phase_cost& p, std::vector<cpu_load> loads, std::span<const double> weights) {
    std::map<cpu_load, int> kinds;
    for (std::size_t i = 0; i < loads.size(); ++i) {
        const auto [kind, is_new] = kinds.try_emplace(std::move(loads[i]), static_cast<int>(kinds.size()));
        if (is_new) {
            p.loads.push_back(kind->first);
            p.ranks.push_back(0);
        }
        p.ranks[at(kind->second)] += weights[i];
        p.load_of_sample.push_back(kind->second);
    }
    find_slowest(p);
}

// What ranks do by themselves: they read and write so many bytes for each of the vector.
template <class Bytes>
phase_cost work_of_ranks(const hierarchy& machine, const sampler& samples, Bytes&& bytes) {
    phase_cost p;
    p.cores = machine.shared_cores();
    p.slowness.assign(at(machine.depth()), 1);
    p.links.resize(samples.ranks().size() * at(machine.depth()) * 2);
    std::vector<cpu_load> loads;
    for (const int rank : samples.ranks())
        loads.push_back({{}, {}, static_cast<float>(bytes(rank) * access_time(machine))});
    set_loads(p, std::move(loads), samples.weights());
    return p;
}

// What a phase costs of a vector so much shorter.
phase_cost scaled(phase_cost p, double by) {
    const auto shrink = [by](auto& x) { x = static_cast<std::remove_reference_t<decltype(x)>>(x * by); };
    const auto shrink_all = [&](std::vector<message_load>& messages) {
        for (message_load& m : messages) shrink(m.part);
    };
    for (double* x : {&p.data, &p.held_data, &p.in_turn, &p.path_memory, &p.network_part, &p.largest_part}) shrink(*x);
    for (double& x : p.links) shrink(x);
    for (cpu_load& load : p.loads) {
        shrink_all(load.sent);
        shrink_all(load.received);
        shrink(load.memory);
    }
    shrink_all(p.path);
    find_slowest(p);
    return p;
}

// How long a vector that goes through a stage occupies the busiest link of each level [s/B].
std::vector<double> busy_links(const hierarchy& machine, const stage_price& s, collective what) {
    std::vector<double> busy(at(machine.depth()));
    for (const phase_cost* p : s.phases(what))
        for (std::size_t link = 0; link < p->links.size(); ++link) {
            const std::size_t level = link / 2 % busy.size();
            busy[level] = std::max(busy[level], p->links[link] * p->slowness[level] / machine.levels[level].bandwidth);
        }
    return busy;
}

// Of a vector that goes through dimensions in another order, what a stage has is so much more than in theirs: each one
// that a stage comes after divides what it has by its size.
double more_of(std::span<const stage> stages, const std::vector<int>& order, int number) {
    double more = 1;
    for (auto before = order.begin(); *before != number; ++before) more /= stages[at(*before)].group;
    for (int before = *std::min_element(order.begin(), order.end()); before < number; ++before)
        more *= stages[at(before)].group;
    return more;
}

double chunks_of(double bytes, std::int64_t chunk) {
    return chunk == 0 ? 1 : std::max(1.0, std::ceil(bytes / static_cast<double>(chunk)));
}

// Throws plan_error where compose would.
void check_stages(const hierarchy& machine, std::span<const stage> stages) {
    stage_tree(machine, stages);
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const algorithm* by = find_algorithm(stages[s].algorithm);
        if (by == nullptr || !by->supports(stages[s].how))
            throw plan_error(fmt::format("stages[{}]: no algorithm \"{}\" does mode {}; these do: {}", s,
                                         stages[s].algorithm, to_string(stages[s].how),
                                         algorithm_names(stages[s].how)));
    }
}

// Whether in every step each of several positions sends to the next one.
bool is_ring(const pattern& p) {
    const int size = static_cast<int>(p.reduced.size());
    const auto to_next = [size](const exchange::message& m) { return wrap(m.to - m.from, size) == 1; };
    const auto all_to_next = [&](const exchange& e) {
        return e.messages.size() == (p.circulant ? 1 : at(size)) &&
               std::all_of(e.messages.begin(), e.messages.end(), to_next);
    };
    return size > 2 && !p.exchanges.empty() && std::all_of(p.exchanges.begin(), p.exchanges.end(), all_to_next);
}

// Adds up what one stage does in one direction, domain by domain. Domains do not wait for one another, so that each has
// its own latency and its own busiest links.
class phase_meter {
public:
    /// @param in_scratch the vector consists of blocks, which ranks copy there and back: in memory that peers reach
    phase_meter(const hierarchy& machine, const sampler& samples, const layout& l, const algorithm& by, carrier over,
                bool down, bool in_scratch, const std::vector<int>& blocks, pattern_book& book)
        : machine_(machine),
          samples_(samples),
          layout_(l),
          by_(by),
          over_(over),
          down_(down),
          in_scratch_(in_scratch),
          blocks_(blocks),
          book_(book),
          loads_(l.places.size()) {
        for (const level& each : machine.levels) made_.slowness.push_back(each.bandwidth / moved_by(each).bandwidth);
        made_.links.resize(l.places.size() * at(machine.depth()) * 2);
        made_.in_memory = true;
        made_.cores = machine.shared_cores();
        turn_ = turn_time(machine);
    }

    phase_cost measure() {
        std::map<int, std::vector<std::size_t>> domains;
        for (std::size_t i = 0; i < layout_.places.size(); ++i) domains[layout_.places[i].domain].push_back(i);
        for (const auto& [domain, samples] : domains) {
            const place& any = layout_.places[samples.front()];
            if (any.positions == 1) continue;
            start(samples);
            const pattern& p = book_.of(by_, layout_.how, down_, any.positions, blocks_);
            if (p.native && on_gpus(machine_)) meet_in_nccl();
            else if (p.native) meet_in_memory();
            else if (p.circulant) turn_around(p);
            else go_through(p);
            if (layout_.how == mode::scatter && is_ring(p) && !ring(layout_.from)) go_around();
            if (ring(layout_.from) && layout_.to == layout_.from + 1) take_slots(p);
            for (std::size_t i : *here_) add_reductions(i, p);
            finish();
        }
        sort_ranks();
        return std::move(made_);
    }

private:
    using way = std::pair<double, double>;  // out and in

    // ---- one domain ----

    void start(const std::vector<std::size_t>& samples) {
        here_ = &samples;
        now_ = {};
        inner_ = largest_piece_ = 0;
        inner_of_.resize(layout_.places.size());
        for (const std::size_t i : samples) {
            const place& p = layout_.places[i];
            largest_piece_ = std::max(largest_piece_, p.largest);
            double& own = inner_of_[i] = 0;
            for (int h = 0; h <= layout_.from; ++h)
                if (layout_.rungs[at(h)].linked() && !ring(h)) own = std::max(own, p.below[at(h)] / rate(i, h));
            inner_ = std::max(inner_, own);
        }
    }

    void finish() {
        made_.latency = std::max(made_.latency, now_.latency);
        made_.data = std::max(made_.data, now_.data);
        if (size_of_lap(now_.lap) > size_of_lap(made_.lap)) made_.lap = std::move(now_.lap);
        const auto most = [](double all, const std::vector<double>& of_position) {
            return of_position.empty() ? all : *std::max_element(of_position.begin(), of_position.end());
        };
        made_.held_latency = std::max(made_.held_latency, most(now_.latency, now_.held_latency));
        made_.held_data = std::max(made_.held_data, most(now_.data, now_.held_data));
        made_.in_turn = std::max(made_.in_turn, now_.in_turn);
        made_.overlap = std::max(made_.overlap, now_.overlap);
        if (now_.path_parts <= longest_path_) return;
        longest_path_ = now_.path_parts;
        made_.path = std::move(now_.path);
        made_.path_memory = now_.path_memory;
    }

    // Equal steps in succession: the time of their busiest link, their largest message and the level it crosses.
    void add_steps(const exchange& e, double slowest_link, double largest, int level, double latency) {
        now_.latency += (latency + turn_) * e.startups;
        now_.data += slowest_link * e.times;
        const double load = largest * largest_piece_;
        count(now_.path, load, level, e.times);
        now_.path_parts += load * e.times;
        now_.path_memory += load * e.times * handling(level);
        made_.largest_part = std::max(made_.largest_part, load);
    }

    // Steps of a ring do not wait for the longest hop each. Either the busiest link passes one part after the other,
    // and nothing else is waited for; or a part that goes over all hops but one is under way the longest.
    void go_around() {
        const place& any = any_place();
        const double part = 1.0 / any.positions;
        std::vector<int> all = hops_of(any.first, any.positions);
        const auto some = [](int hops) { return hops > 0; };
        ++*std::find_if(all.rbegin(), all.rend(), some);  // from the last to the first
        --*std::find_if(all.begin(), all.end(), some);    // the one that a part does not go over
        std::vector<std::vector<int>> within;             // the longest domain of each height
        for (int h = layout_.from + 1; h < layout_.to; ++h) {
            place::block longest;
            for (const std::size_t i : *here_)
                if (const place::block& b = layout_.places[i].blocks[at(h - layout_.from - 1)];
                    b.positions > longest.positions)
                    longest = b;
            within.push_back(hops_of(any.first + longest.first, longest.positions));
        }
        double wire = inner_ * part, longest = 0;
        for (int h = layout_.from; h < layout_.to; ++h) {
            const int number = layout_.rungs[at(h)].level;
            const level& l = machine_.levels[at(number)];
            if (layout_.rungs[at(h)].linked()) wire = std::max(wire, part * any.below.back() / moved_by(l).bandwidth);
            const std::size_t height = at(h - layout_.from);
            if (all[height] == 0) continue;
            const double load = part * largest_piece_, latency = moved_by(l).step;
            ring_hop hop{latency + turn_, wire, message_of(load, number, 1), load * handling(number), all[height], {}};
            for (const std::vector<int>& w : within) hop.within.push_back(w[height]);
            now_.lap.push_back(std::move(hop));
            longest = std::max(longest, latency);
        }
        now_.latency = longest + turn_;
    }

    // From one to the next of so many positions, by height of the domains that are left.
    std::vector<int> hops_of(int first, int positions) const {
        std::vector<int> hops;
        const int one = samples_.first_rank(layout_, layout_.from, first);
        const int other = samples_.first_rank(layout_, layout_.from, first + positions - 1);
        for (int h = layout_.from; h < layout_.to; ++h) {
            const int domains = samples_.domain_at(layout_, h, other) - samples_.domain_at(layout_, h, one);
            if (!hops.empty()) hops.back() -= domains;
            hops.push_back(domains);
        }
        return hops;
    }

    // What is done in memory for a message on its way [s/B].
    double handling(int level) const {
        const bool adds = !down_ && layout_.how != mode::replicate;  // there, a rank may only take part at the end
        return (adds ? reduce_time(machine_) : 0) + 2 * copying(level);
    }

    // Every position sends the same: only those of the samples are looked at.
    void turn_around(const pattern& p) {
        const int size = static_cast<int>(p.reduced.size());
        for (const exchange& e : p.exchanges) {
            double sent = 0, slowest = 0, largest = 0, latency = 0;
            int largest_level = layout_.rungs[at(layout_.from)].level;
            for (const exchange::message& m : e.messages) sent += m.part;
            slowest = sent * inner_;
            for (const std::size_t i : *here_) {
                const place& q = layout_.places[i];
                const double held = q.below.back();
                for (std::size_t b = 0; b < q.blocks.size(); ++b) {
                    const int h = layout_.from + 1 + static_cast<int>(b), m = q.blocks[b].positions;
                    double crossing = 0;
                    for (const exchange::message& each : e.messages)
                        crossing += each.part * (m - std::max(0, m - each.to) - std::max(0, m + each.to - size));
                    if (ring(h)) crossing /= ring_share(h);
                    pass(i, h, {crossing * held * e.times, crossing * held * e.times});
                    if (layout_.rungs[at(h)].linked()) slowest = std::max(slowest, crossing * held / rate(i, h));
                }
                for (int h = 0; h <= layout_.from; ++h) {
                    if (ring(h) && h < layout_.from) continue;
                    const double through = ring(h) ? around(e, size) / ring_share(h) : sent;
                    pass(i, h, {through * q.below[at(h)] * e.times, through * q.below[at(h)] * e.times});
                    if (ring(h)) slowest = std::max(slowest, through * held / rate(i, h));
                }
                for (const exchange::message& m : e.messages) {
                    const int there = level_between(q, q.position, wrap(q.position + m.to, size));
                    const int back = level_between(q, wrap(q.position - m.to, size), q.position);
                    add_message(i, true, m.part, there, e.times);
                    add_message(i, false, m.part, back, e.times);
                    for (const int level : {there, back})
                        latency = std::max(latency, moved_by(machine_.levels[at(level)]).step);
                    if (m.part > largest || (m.part == largest && there > largest_level))
                        largest = m.part, largest_level = there;
                }
            }
            add_steps(e, slowest, largest, largest_level, latency);
        }
    }

    // What the first position sends to neighbours on a ring, as if it had one link for all: a lane's slots go to
    // segments in program order, so that the last of one message and the first of the next are under way together.
    void take_slots(const pattern& p) {
        if (on_gpus(machine_)) return;  // messages go whole
        const place& any = any_place();
        const double per_vector = 1 / (rate(here_->front(), layout_.from) * ring_share(layout_.from));
        double parts = 0, messages = 0;
        for (const exchange& e : p.exchanges)
            for (const exchange::message& m : e.messages)
                if (m.from == 0) parts += m.part * e.times, messages += e.times;
        now_.in_turn = parts * any.below.back() * per_vector;
        const double ranks = any.below.back() / any.share;
        now_.overlap = (messages - 1) * slots_each_way * static_cast<double>(wire_segment) * ranks * per_vector;
    }

    // Every position sends the same over rings. The busier direction, from one neighbour to the next.
    double around(const exchange& e, int size) const {
        const bool aligned = layout_.to == layout_.from + 1;
        double up = 0, down = 0;
        for (const exchange::message& m : e.messages) {
            const int hops = aligned ? ring_hops(0, m.to, size) : m.to == size - 1 ? -1 : 1;
            (hops > 0 ? up : down) += m.part * std::abs(hops);
        }
        return std::max(up, down);
    }

    // All messages, one by one.
    void go_through(const pattern& p) {
        const place& any = any_place();
        const double held = any.below.back();
        const int size = any.positions;
        std::vector<bool> sampled(at(size));
        std::multimap<int, std::size_t> samples;
        for (const std::size_t i : *here_) {
            sampled[at(layout_.places[i].position)] = true;
            samples.emplace(layout_.places[i].position, i);
        }
        const auto add = [&](int position, bool sends, double part, int level, int times) {
            if (!sampled[at(position)]) return;
            const auto [begin, end] = samples.equal_range(position);
            for (auto s = begin; s != end; ++s) add_message(s->second, sends, part, level, times);
        };
        // What a vector through it takes inside each position: the longest there is, where links do not differ.
        std::vector<double> inner(at(size), inner_);
        const auto differ = [](const level& l) { return !l.rates.empty(); };
        if (std::any_of(machine_.levels.begin(), machine_.levels.end(), differ)) {
            for (const auto& [position, sample] : samples) inner[at(position)] = 0;
            for (const auto& [position, sample] : samples)
                inner[at(position)] = std::max(inner[at(position)], inner_of_[sample]);
        }
        // By height from the positions' up, the domain that each position is in, and what passes its link.
        std::vector<int> first_domain{any.first};
        std::vector<std::vector<int>> domain(1);
        for (int i = 0; i < size; ++i) domain[0].push_back(i);
        for (int h = layout_.from + 1; h < layout_.to; ++h) {
            domain.emplace_back();
            int first = 0;
            for (int i = 0; i < size; ++i) {
                const int d = samples_.domain_at(layout_, h, samples_.first_rank(layout_, layout_.from, any.first + i));
                if (i == 0) first_domain.push_back(first = d);
                domain.back().push_back(d - first);
            }
        }
        now_.held_latency.resize(at(size)), now_.held_data.resize(at(size));
        std::vector<way> ends(at(size)), all_ends(at(size));  // what each position sends and receives
        std::vector<std::vector<way>> step, all;              // what passes links above it, or on its ring
        for (const std::vector<int>& each : domain) {
            step.emplace_back(at(each.back()) + 1);
            all.emplace_back(at(each.back()) + 1);
        }
        std::vector<std::pair<std::size_t, int>> touched;
        for (const exchange& e : p.exchanges) {
            double slowest = 0, largest = 0, latency = 0;
            int largest_level = layout_.rungs[at(layout_.from)].level;
            for (const exchange::message& m : e.messages) {
                ends[at(m.from)].first += m.part;
                ends[at(m.to)].second += m.part;
                std::size_t h = 0;
                for (; h < domain.size() && domain[h][at(m.from)] != domain[h][at(m.to)]; ++h) {
                    if (const int height = layout_.from + static_cast<int>(h); ring(height)) {
                        const int n = machine_.shape.children(layout_.rungs[at(height)].level, 0);
                        const int a = domain[h][at(m.from)], row = a - a % n;
                        const int hops = ring_hops(a % n, domain[h][at(m.to)] % n, n);
                        for (int k = 0; k < std::abs(hops); ++k) {
                            const int at_hop = row + wrap(a % n + (hops > 0 ? k : -k), n);
                            touched.emplace_back(h, at_hop);
                            (hops > 0 ? step[h][at(at_hop)].first : step[h][at(at_hop)].second) +=
                                m.part / ring_share(height);
                        }
                        continue;
                    }
                    touched.emplace_back(h, domain[h][at(m.from)]);
                    touched.emplace_back(h, domain[h][at(m.to)]);
                    step[h][at(domain[h][at(m.from)])].first += m.part;
                    step[h][at(domain[h][at(m.to)])].second += m.part;
                }
                const int level = layout_.rungs[at(layout_.from) + h - 1].level;
                latency = std::max(latency, moved_by(machine_.levels[at(level)]).step);
                add(m.from, true, m.part, level, e.times);
                add(m.to, false, m.part, level, e.times);
                if (m.part > largest || (m.part == largest && level > largest_level))
                    largest = m.part, largest_level = level;
            }
            for (const auto& [h, d] : touched) {
                way& w = step[h][at(d)];
                const double busier = std::max(w.first, w.second);
                const int height = layout_.from + static_cast<int>(h);
                const int level = layout_.rungs[at(height)].level;
                if (layout_.rungs[at(height)].linked())
                    slowest = std::max(
                        slowest, busier * held * made_.slowness[at(level)] / machine_.rate(level, first_domain[h] + d));
                all[h][at(d)].first += w.first * e.times;
                all[h][at(d)].second += w.second * e.times;
                w = {};
            }
            touched.clear();
            for (const exchange::message& m : e.messages)
                for (const int position : {m.from, m.to}) {
                    const way& w = ends[at(position)];
                    slowest = std::max(slowest, std::max(w.first, w.second) * inner[at(position)]);
                }
            for (const exchange::message& m : e.messages)
                for (const int position : {m.from, m.to}) {
                    const way w = std::exchange(ends[at(position)], {});
                    if (w == way{}) continue;  // counted already
                    all_ends[at(position)].first += w.first * e.times;
                    all_ends[at(position)].second += w.second * e.times;
                    now_.held_latency[at(position)] += (latency + turn_) * e.startups;
                    now_.held_data[at(position)] += slowest * e.times;
                }
            add_steps(e, slowest, largest, largest_level, latency);
        }
        for (const std::size_t i : *here_) {
            const place& q = layout_.places[i];
            for (int h = 0; h < layout_.to; ++h) {
                const bool inside = h < layout_.from;
                if (ring(h) && inside) continue;
                const std::size_t above = at(std::max(0, h - layout_.from));
                const auto [out, in] =
                    inside ? all_ends[at(q.position)] : all[above][at(domain[above][at(q.position)])];
                const double weight = inside ? q.below[at(h)] : held;
                pass(i, h, {out * weight, in * weight});
            }
        }
    }

    // A native stage in shared memory: ranks read their peers' copies, or the root's, and write nobody else's. What one
    // rank reads of the root's copy another finds in the cache.
    void meet_in_memory() {
        const bool has_root = layout_.how == mode::root, all_reduce = layout_.how == mode::replicate;
        // For all to arrive and, where each reduces a shard for the others, for those.
        const int waits = has_root || all_reduce || down_ ? 1 : 2;
        now_.latency = waits * (flag * machine_.levels[at(outermost_joining())].latency + turn_);
        double busiest = 0;
        for (const std::size_t i : *here_) {
            const place& q = layout_.places[i];
            const double size = q.positions, reduced = has_root || all_reduce ? 1 : shards_of(q.position, 1);
            const bool is_root = has_root && q.position == 0;
            const double exposed = layout_.how == mode::scatter ? 1 - reduced : is_root ? 0 : 1;  // to peers
            const double in = !down_ && layout_.innermost && !in_scratch_ ? 2 * exposed : 0;
            // All that a rank has just copied in is in its cache: where it reads all of that again, it does so for
            // nothing.
            const double again = all_reduce && in > 0 ? 1 : 0;
            const double added = !down_ && (!has_root || is_root) ? (size + 1 - again) * reduced : 0;
            const double out = !down_ ? 0 : in_scratch_ ? 2 * exposed : 2;
            loads_[i].memory += (in + added + out) * q.share * access_time(machine_);
            made_.largest_part = std::max(made_.largest_part, reduced * q.largest);
            for (int h = 0; h < layout_.to; ++h) {
                if (!layout_.rungs[at(h)].linked()) continue;
                const bool inside = h <= layout_.from;  // a position
                const place::block b = inside ? place::block{q.position, 1} : q.blocks[at(h - layout_.from - 1)];
                const double n = b.positions, others = size - n, shards = shards_of(b.first, b.positions);
                const double held = q.below[at(std::min(h, layout_.from))];
                way w;
                if (all_reduce) w.first = w.second = n * others;
                else if (!has_root && down_) w = {others * shards, n * (1 - shards)};
                else if (!has_root) w = {n * (1 - shards), others * shards};
                else if (down_) (b.first == 0 ? w.first : w.second) = 1;
                else if (b.first == 0) w.second = others;
                else w.first = n;
                pass(i, h, {w.first * held, w.second * held});
                busiest = std::max(busiest, std::max(w.first, w.second) * held / rate(i, h));
            }
        }
        now_.data = busiest;
    }

    // Of the stage's data, what so many positions from one on own once it is scattered.
    double shards_of(int first, int positions) const {
        const double all =
            blocks_.empty() ? any_place().positions : std::accumulate(blocks_.begin(), blocks_.end(), 0.0);
        if (blocks_.empty()) return positions / all;
        return std::accumulate(blocks_.begin() + first, blocks_.begin() + first + positions, 0.0) / all;
    }
    const place& any_place() const { return layout_.places[here_->front()]; }

    // A native stage between GPUs: a ring, of two rounds where all get all, or a chain of many pieces where one has
    // all; one start-up, and what arrives is reduced as it passes through.
    void meet_in_nccl() {
        const bool has_root = layout_.how == mode::root;
        const int outermost = outermost_joining();
        for (int l = layout_.rungs[at(layout_.from)].level; l <= outermost; ++l)
            now_.latency = std::max(now_.latency, nccl_rates(machine_.levels[at(l)]).stage);
        double busiest = 0;
        for (const std::size_t i : *here_) {
            const place& q = layout_.places[i];
            const double size = q.positions, once = (size - 1) / size;
            const double through = has_root ? 1 : layout_.how == mode::replicate ? 2 * once : once;
            if (!down_) loads_[i].memory += (has_root ? 1 : once) * q.share * reduce_time(machine_);
            made_.largest_part = std::max(made_.largest_part, q.largest / (has_root ? 1 : size));
            if (between_nodes(machine_.levels[at(outermost)].medium))
                made_.network_part = std::max(made_.network_part, q.largest / (has_root ? 1 : size));
            for (int h = 0; h < layout_.to; ++h) {
                if (!layout_.rungs[at(h)].linked()) continue;
                const double held = through * q.below[at(std::min(h, layout_.from))];
                pass(i, h, {held, held});
                busiest = std::max(busiest, held / rate(i, h));
            }
        }
        now_.data = busiest;
    }

    // ---- one sampled rank ----

    void add_message(std::size_t sample, bool sends, double part, int level, int steps) {
        const place& p = layout_.places[sample];
        const double largest = part * p.largest;
        made_.in_memory &= through_memory(machine_, level);
        if (p.share == 0) return;
        if (between_nodes(machine_.levels[at(level)].medium))
            made_.network_part = std::max(made_.network_part, largest);
        rank_load& load = loads_[sample];
        const double pieces = in_scratch_ ? std::min(p.pieces, blocks_of(p)) : p.pieces;
        count(sends ? load.sent : load.received, part * p.share / pieces, level, steps * pieces);
        load.memory += part * p.share * steps * copying(level);
    }

    // Of what the rank holds, about so many end up with each position.
    double blocks_of(const place& p) const { return std::max(1.0, p.share * machine_.ranks() / p.positions); }

    void add_reductions(std::size_t sample, const pattern& p) {
        const place& q = layout_.places[sample];
        if (!p.reduced.empty()) loads_[sample].memory += p.reduced[at(q.position)] * q.share * reduce_time(machine_);
    }

    message_load message_of(double load, int level, double times) const {
        const terrace::level& met = machine_.levels[at(level)];
        const bool whole = over_ == carrier::nccl && (between_gpus(met.medium) || (on_gpus(machine_) && met.nccl));
        return {static_cast<float>(load), static_cast<float>(met.overhead), whole, times};
    }

    void count(std::vector<message_load>& messages, double load, int level, double steps) const {
        const message_load added = message_of(load, level, steps);
        for (message_load& m : messages)
            if (m.part == added.part && m.overhead == added.overhead && m.whole == added.whole) {
                m.count += steps;
                return;
            }
        messages.push_back(added);
    }

    // Vectors through the link of the sample's domain of a height.
    void pass(std::size_t sample, int height, way vectors) {
        const layout::rung& r = layout_.rungs[at(height)];
        if (!r.linked()) return;
        double* link = &made_.links[(sample * at(machine_.depth()) + at(r.level)) * 2];
        link[0] += vectors.first;
        link[1] += vectors.second;
    }

    // The level at which two positions of a sample's domain meet.
    int level_between(const place& p, int a, int b) const {
        int h = layout_.from;
        if (layout_.to == h + 1) return layout_.rungs[at(h)].level;
        const int one = samples_.first_rank(layout_, h, p.first + a);
        const int other = samples_.first_rank(layout_, h, p.first + b);
        while (samples_.domain_at(layout_, h + 1, one) != samples_.domain_at(layout_, h + 1, other)) ++h;
        return layout_.rungs[at(h)].level;
    }

    // The outermost of the stage's levels that joins anything.
    int outermost_joining() const {
        int h = layout_.to - 1;
        while (h > layout_.from && machine_.shape.uniform_size(layout_.rungs[at(h)].level) == 1) --h;
        return layout_.rungs[at(h)].level;
    }

    // Whether domains of a height are on rings: their own links to neighbours are used by what stages do there alone.
    bool ring(int height) const { return machine_.levels[at(layout_.rungs[at(height)].level)].ring; }
    double ring_share(int height) const { return machine_.ring_share(layout_.rungs[at(height)].level); }

    // Of the link of the sample's domain of a height.
    double rate(std::size_t sample, int height) const {
        const int level = layout_.rungs[at(height)].level;
        return machine_.rate(level, machine_.shape.domain_of(level - 1, samples_.ranks()[sample])) /
               made_.slowness[at(level)];
    }

    // What the stage's data takes on a level's links.
    device_rates moved_by(const level& l) const {
        if (!on_gpus(machine_)) return {.step = l.latency, .bandwidth = l.bandwidth};
        return over_ == carrier::mpi ? mpi_rates(l) : nccl_rates(l);
    }

    // The transport copies a message in at one end and out at the other [s/B].
    double copying(int level) const { return through_memory(machine_, level) ? 2 * access_time(machine_) : 0; }

    struct rank_load {
        std::vector<message_load> sent, received;
        double memory = 0;
    };

    void sort_ranks() {
        std::vector<cpu_load> loads;
        for (rank_load& load : loads_) {
            std::sort(load.sent.begin(), load.sent.end());
            std::sort(load.received.begin(), load.received.end());
            loads.push_back({std::move(load.sent), std::move(load.received), static_cast<float>(load.memory)});
        }
        set_loads(made_, std::move(loads), samples_.weights());
    }

    const hierarchy& machine_;
    const sampler& samples_;
    const layout& layout_;
    const algorithm& by_;
    carrier over_;
    bool down_, in_scratch_;
    const std::vector<int>& blocks_;
    pattern_book& book_;
    double turn_ = 0;
    std::vector<rank_load> loads_;
    phase_cost made_;
    double longest_path_ = 0;
    // Of the domain at hand.
    const std::vector<std::size_t>* here_ = nullptr;
    double inner_ = 0;  // slowness of the busiest link inside its positions, per vector that one sends [s/B]
    std::vector<double> inner_of_;  // inside each sample's
    double largest_piece_ = 0;      // of the vector
    struct {
        double latency = 0, data = 0, in_turn = 0, overlap = 0, path_memory = 0, path_parts = 0;
        std::vector<message_load> path;
        std::vector<ring_hop> lap;
        std::vector<double> held_latency, held_data;  // by position; empty: all take part in everything
    } now_;
};

}  // namespace

bool between_gpus(fabric f) noexcept { return f == fabric::nvlink || f == fabric::pcie; }

bool on_gpus(const hierarchy& machine) noexcept { return between_gpus(machine.levels.front().medium); }

bool through_memory(const hierarchy& machine, int l) noexcept {
    const fabric f = machine.levels[at(l)].medium;
    return !on_gpus(machine) && (f == fabric::shm || f == fabric::bus);
}

double access_time(const hierarchy& machine) noexcept { return reduce_time(machine) / 3; }

double reduce_time(const hierarchy& machine) noexcept {
    if (machine.processors.reduction > 0) return 1 / machine.processors.reduction;
    return on_gpus(machine) ? 1 / 200e9 : 1 / 8e9;
}

double turn_time(const hierarchy& machine) noexcept {
    if (machine.shared_cores() == 0) return 0;
    double longest = 0;
    for (const level& l : machine.levels) longest = std::max(longest, l.overhead);
    return (static_cast<double>(machine.ranks()) / machine.shared_cores() - 1) * longest;
}

double cpu_load::time(double bytes) const {
    return std::max(overheads(sent, bytes), overheads(received, bytes)) + memory * bytes;
}

double cpu_load::work(double bytes) const {
    return overheads(sent, bytes) + overheads(received, bytes) + memory * bytes;
}

std::vector<const phase_cost*> stage_price::phases(collective what) const {
    if (of_blocks && has_blocks(what)) return of_blocks->phases(what);
    std::vector<const phase_cost*> result;
    if (goes_up(what)) result.push_back(&up);
    if (goes_down(what)) result.push_back(&down);
    return result;
}

double stage_price::time(double bytes, collective what) const {
    double time = 0;
    for (const phase_cost* p : phases(what)) time += time_of(*p, bytes);
    return time;
}

double stage_price::busiest_link(collective what) const {
    double sum = 0;
    for (const phase_cost* p : phases(what))
        if (!p->links.empty()) sum += *std::max_element(p->links.begin(), p->links.end());
    return sum;
}

std::string key_of(std::span<const stage> stages) {
    std::string key;
    for (const stage& s : stages)
        key += fmt::format("{}-{}:{}:{}:{}:{}:{}:{};", s.levels.front(), s.levels.back(), s.group, to_string(s.how),
                           s.algorithm, to_string(s.over), s.first, fmt::join(s.weights, ":"));
    return key;
}

bool available(const hierarchy& machine, const stage& s, const algorithm& a) {
    if (!a.supports(s.how)) return false;
    // On rings hops are counted within one dimension; what goes from neighbour to neighbour may merge them.
    const bool rings = s.levels.back() >= machine.torus_level();
    if (a.name == "biring" && !rings) return false;
    if (rings && s.levels.size() > 1 && a.name != "ring" && a.name != "chain") return false;
    if (a.name != "native") return true;
    if (!on_gpus(machine))
        return std::all_of(s.levels.begin(), s.levels.end(), [&](int l) {
            return through_memory(machine, l) || machine.shape.uniform_size(l) == 1;  // which joins nothing
        });
    for (int l = 0; l <= s.levels.back(); ++l)
        if (!machine.shape.uniform_size(l)) return false;
    return !rings && s.weights.empty() &&
           std::all_of(s.levels.begin(), s.levels.end(), [&](int l) { return machine.levels[at(l)].nccl.has_value(); });
}

namespace {

// Whether plans may run a stage over MPI by an algorithm.
bool over_mpi(const hierarchy& machine, const stage& s, const algorithm& a) {
    return on_gpus(machine) && a.name != "native" &&
           std::all_of(s.levels.begin(), s.levels.end(), [&](int l) { return machine.levels[at(l)].mpi.has_value(); });
}

}  // namespace

pricer::pricer(const hierarchy& machine, sampler samples) : machine_(machine), samples_(std::move(samples)) {
    const phase_cost blocks = work_of_ranks(machine_, samples_, [&](int) { return 2 * (1 + 1.0 / machine.ranks()); });
    const phase_cost root = work_of_ranks(machine_, samples_, [](int rank) { return rank == 0 ? 2 : 0; });
    block_copies_ = std::make_shared<const stage_price>(stage_price{blocks, blocks, nullptr});
    root_copy_ = std::make_shared<const stage_price>(stage_price{root, root, nullptr});
}

std::shared_ptr<const stage_price> pricer::price_stage(std::span<const stage> up_to_it, const algorithm& a,
                                                       carrier over) {
    const layout& l = samples_.lay_out(up_to_it);
    const auto priced = [&](const std::vector<int>& blocks, bool in_scratch = false) {
        const auto phase = [&](bool down) {
            return phase_meter(machine_, samples_, l, a, over, down, in_scratch, blocks, book_).measure();
        };
        return stage_price{phase(false), phase(true), nullptr};
    };
    // Weights are unequal shards: of the last stage, so that what it leaves with whom matters to none.
    if (const std::vector<int>& weights = up_to_it.back().weights; !weights.empty())
        return std::make_shared<const stage_price>(priced(weights));
    stage_price made = priced({});
    // Between unequal siblings blocks are unequal shards: a sibling's are those of its ranks.
    const std::vector<int> blocks = l.how == mode::scatter ? samples_.blocks(l) : std::vector<int>{};
    const auto in_pieces = [](const place& p) { return p.pieces > 1; };
    const bool cut = l.how == mode::scatter && std::any_of(l.places.begin(), l.places.end(), in_pieces);
    if (!blocks.empty() || cut || (a.native && l.how == mode::scatter))
        made.of_blocks = std::make_shared<const stage_price>(priced(blocks, true));
    return std::make_shared<const stage_price>(std::move(made));
}

// Nodes of a torus are alike: a dimension that comes earlier or later costs what it does of a longer or shorter vector.
price pricer::price_together(collective what, std::span<const stage> stages,
                             std::vector<std::shared_ptr<const stage_price>> costs) const {
    const routes ways = routes_of(machine_, stages);
    std::vector<leg> legs;
    for (int s = 0; s < ways.common; ++s) legs.push_back({s, 0, std::move(costs[at(s)])});
    const double all = std::accumulate(ways.shares.begin(), ways.shares.end(), 0.0);
    for (int r = 0; r < ways.count(); ++r)
        for (const int s : ways.orders[at(r)]) {
            const double part = ways.shares[at(r)] / all * more_of(stages, ways.orders[at(r)], s);
            const stage_price& whole = *costs[at(s)];
            legs.push_back({s, r + 1,
                            std::make_shared<const stage_price>(
                                stage_price{scaled(whole.up, part), scaled(whole.down, part), nullptr})});
        }
    if (has_blocks(what)) legs.push_back({0, 0, block_copies_});
    if (what == collective::broadcast && stages.front().algorithm == "native" && !on_gpus(machine_))
        legs.push_back({0, 0, root_copy_});
    return price(machine_, samples_, what, std::move(legs));
}

// One share after the other is given to the order that leaves what is busiest the least busy.
std::vector<int> pricer::turns(collective what, std::span<const stage> stages,
                               std::span<const std::shared_ptr<const stage_price>> costs, bool in_one_piece) const {
    constexpr int most = 24;
    constexpr double as_good = 1.01;
    const std::span<const stage> turning = dimensions_of(machine_, stages);
    if (!all_send(turning)) return {};
    const std::size_t dimensions = turning.size(), inside = stages.size() - dimensions;
    const std::size_t depth = at(machine_.depth());
    std::vector<std::vector<double>> busy;  // by the stage that comes first: each level, and each route [s/B]
    std::vector<int> order(dimensions);
    std::iota(order.begin(), order.end(), static_cast<int>(inside));
    for (std::size_t first = 0; first < dimensions; ++first) {
        std::vector<double>& sum = busy.emplace_back(depth + dimensions);
        for (const int s : order) {
            const double more = more_of(stages, order, s);
            const std::vector<double> of_stage = busy_links(machine_, *costs[at(s)], what);
            for (std::size_t l = 0; l < depth; ++l) sum[l] += of_stage[l] * more;
            for (const phase_cost* p : costs[at(s)]->phases(what))
                sum[depth + first] += in_one_piece ? p->data * more : 0;
        }
        std::rotate(order.begin(), order.begin() + 1, order.end());
    }
    std::vector<double> so_far(depth + dimensions);
    const auto with = [&](const std::vector<double>& more) {
        double most_busy = 0;
        for (std::size_t i = 0; i < so_far.size(); ++i) most_busy = std::max(most_busy, so_far[i] + more[i]);
        return most_busy;
    };
    std::vector<int> shares(stages.size()), best;
    double least = std::numeric_limits<double>::infinity();
    for (int n = 1; n <= most && dimensions > 0; ++n) {
        const auto next =
            std::min_element(busy.begin(), busy.end(), [&](const auto& a, const auto& b) { return with(a) < with(b); });
        for (std::size_t i = 0; i < so_far.size(); ++i) so_far[i] += (*next)[i];
        ++shares[inside + static_cast<std::size_t>(next - busy.begin())];
        const double each = *std::max_element(so_far.begin(), so_far.end()) / n;
        if (each * as_good < least) least = each, best = shares;
    }
    const bool one = std::count(best.begin(), best.end(), 0) + 1 == static_cast<std::ptrdiff_t>(best.size());
    return one && best[inside] > 0 ? std::vector<int>{} : best;
}

price pricer::price_stages(std::span<const stage> stages, collective what) {
    check_stages(machine_, stages);
    std::vector<std::shared_ptr<const stage_price>> prices;
    for (std::size_t s = 0; s < stages.size(); ++s)
        prices.push_back(price_stage(stages.first(s + 1), *find_algorithm(stages[s].algorithm), stages[s].over));
    return price_together(what, stages, std::move(prices));
}

// A library's own collective is taken to be as fast as the messages of direct, which then comes first.
std::vector<pricer::option> pricer::options_of(std::span<const stage> up_to_it) {
    const auto fewer = [](const place& a, const place& b) { return a.positions < b.positions; };
    const std::vector<place>& places = samples_.lay_out(up_to_it).places;
    const int size = std::max_element(places.begin(), places.end(), fewer)->positions;
    const stage& s = up_to_it.back();
    std::vector<option> able;
    for (const algorithm& a : algorithms()) {
        if (a.library || !available(machine_, s, a) || !book_.worth_a_look(a, s.how, size)) continue;
        able.push_back({&a, carrier::nccl, price_stage(up_to_it, a, carrier::nccl)});
        if (over_mpi(machine_, s, a)) able.push_back({&a, carrier::mpi, price_stage(up_to_it, a, carrier::mpi)});
    }
    return able;
}

// What a stage costs depends on the stages inside it, not on their algorithms and not on the stages outside it.
std::vector<std::span<const pricer::option>> pricer::price_options(std::span<const stage> stages) {
    std::vector<std::span<const option>> result;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const auto [known, is_new] = options_.try_emplace(key_of_places(stages.first(s + 1)));
        if (is_new) known->second = options_of(stages.first(s + 1));
        result.push_back(known->second);
    }
    return result;
}

price::price(const hierarchy& machine, const sampler& samples, collective what, std::vector<leg> legs)
    : what_(what), legs_(std::move(legs)), ranks_(machine.ranks()) {
    std::map<int, double> latencies;  // by route
    for (const leg& each : legs_)
        for (const phase_cost* p : each.cost->phases(what)) {
            phases_.push_back(p);
            latencies[each.route] += startups_of(*p);
        }
    const double of_all = latencies[0];
    for (const auto& [route, latency] : latencies) latency_ = std::max(latency_, of_all + (route == 0 ? 0 : latency));
    const std::size_t depth = at(machine.depth());
    std::vector<double> loads(samples.ranks().size() * depth * 2), busy(loads.size());  // vectors, and at the rate
    double network_part = 0, largest_part = 0;
    for (const phase_cost* p : phases_) {
        for (std::size_t link = 0; link < loads.size(); ++link) {
            loads[link] += p->links[link];
            busy[link] += p->links[link] * p->slowness[link / 2 % depth];
        }
        network_part = std::max(network_part, p->network_part);
        largest_part = std::max(largest_part, p->largest_part);
    }
    for (int l = 0; l < machine.depth(); ++l) {
        link_cost& worst = links_.emplace_back(link_cost{.level = l});
        for (std::size_t i = 0; i < samples.ranks().size(); ++i) {
            const std::size_t link = (i * depth + at(l)) * 2;
            const double load = std::max(loads[link], loads[link + 1]);
            const int child = machine.shape.domain_of(l - 1, samples.ranks()[i]);
            const double time = std::max(busy[link], busy[link + 1]) / machine.rate(l, child);
            if (time <= worst.time * (1 + 1e-9)) continue;
            worst = {.level = l, .child = child, .bytes = load, .time = time};
        }
        link_time_ = std::max(link_time_, worst.time);
    }
    crosses_network_ = network_part > 0;
    if (largest_part > 0) shrink_ = 1 / (network_part > 0 ? network_part : largest_part);

    find_busiest(samples);
}

// The ranks that are busiest at some size: what lies between two sizes differs too little to matter.
void price::find_busiest(const sampler& samples) {
    std::set<std::vector<int>> kinds;
    for (std::size_t i = 0; i < samples.ranks().size(); ++i) {
        std::vector<int> kind;
        for (const phase_cost* p : phases_) kind.push_back(p->load_of_sample[i]);
        kinds.insert(std::move(kind));
    }
    std::set<const std::vector<int>*> busiest;
    for (std::size_t size = 0; size < sizes; ++size) {
        const std::vector<int>* most = nullptr;
        double longest = 0;
        for (const std::vector<int>& kind : kinds) {
            double time = 0;
            for (std::size_t p = 0; p < kind.size(); ++p) time += phases_[p]->times[at(kind[p])][size];
            if (most == nullptr || time > longest * (1 + 1e-9)) most = &kind, longest = time;
        }
        if (busiest.insert(most).second) busiest_.push_back(*most);
    }
}

double price::cpu_time(double bytes) const {
    double most = 0;
    for (const std::vector<int>& kind : busiest_) {
        double sum = 0;
        for (std::size_t p = 0; p < kind.size(); ++p) sum += phases_[p]->loads[at(kind[p])].time(bytes);
        most = std::max(most, sum);
    }
    double all = 0;
    for (const phase_cost* p : phases_) all += crowded(*p, bytes);
    return std::max(most, all);
}

double price::effort(double bytes, std::int64_t chunk) const {
    const double c = chunks_of(bytes, chunk);
    double average = 0;
    for (const phase_cost* p : phases_)
        for (std::size_t load = 0; load < p->loads.size(); ++load)
            average += p->ranks[load] / ranks_ * p->loads[load].time(bytes / c);
    return c * (cpu_time(bytes / c) + average);
}

double price::messages(double bytes, std::int64_t chunk) const {
    const double c = chunks_of(bytes, chunk);
    double all = 0;  // in one chunk
    for (const phase_cost* p : phases_)
        for (std::size_t load = 0; load < p->loads.size(); ++load) {
            double sent = 0;
            for (const message_load& m : p->loads[load].sent) sent += m.count * segments_of(m, bytes / c);
            all += p->ranks[load] * std::max(sent, 1.0);
        }
    return c * all;
}

// Of a chunk of so many bytes.
int price::longest_route(double bytes) const {
    std::map<int, double> times;
    for (const leg& each : legs_)
        for (const phase_cost* p : each.cost->phases(what_)) times[each.route] += time_of(*p, bytes);
    times.erase(0);
    const auto longer = [](const auto& a, const auto& b) { return a.second < b.second; };
    return times.empty() ? 0 : std::max_element(times.begin(), times.end(), longer)->first;
}

double price::at_least(double bytes) const { return std::max({latency_, link_time_ * bytes, cpu_time(bytes)}); }

// Routes are under way side by side, but for what processors and request slots do.
pipeline price::in_chunks(double bytes, std::int64_t chunk) const {
    pipeline p{.chunks = chunks_of(bytes, chunk)};
    const double each = bytes / p.chunks;
    const int longest = longest_route(each);
    p.busiest = std::max(link_time_ * each, cpu_time(each));
    // Other stages are in the way of chunks that would fill gaps.
    const bool alone = std::all_of(legs_.begin(), legs_.end(), [](const leg& each) { return each.stage == 0; });
    double in_turn = 0, unshared = 0;  // on all routes; what of the sum the longest one's wires are
    for (const leg& of : legs_)
        for (const phase_cost* phase : of.cost->phases(what_)) {
            const double time = time_of(*phase, each);
            p.sum += of.route == 0 || of.route == longest ? time : processors_of(*phase, each);
            if (alone) p.idle += time - standing_of(*phase, each);
            if (of.route > 0) in_turn += phase->in_turn * each - phase->overlap;
            if (of.route > 0 && of.route == longest) unshared += wire_of(*phase, each);
        }
    if (longest > 0) p.sum = std::max(p.sum + std::max(0.0, in_turn - unshared), p.busiest);
    p.held = p.sum;
    if (!has_root(what_)) return p;
    // What goes one way alone is with one rank after the other, and leaves each one's lane free for the next.
    p.held = 0;
    for (const phase_cost* phase : phases_) p.held += held_of(*phase, each);
    return p;
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
            s.time += each.cost->time(bytes / c, what_);
            for (const phase_cost* phase : each.cost->phases(what_)) s.latency += startups_of(*phase);
        }
        p.cpu_time = c * cpu_time(bytes / c);
    }
    for (link_cost& l : p.links) {
        l.bytes *= bytes;
        l.time *= bytes;
    }
    return p;
}

}  // namespace terrace
