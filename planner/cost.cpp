#include "planner/cost.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace terrace {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr std::int64_t virtual_count = std::int64_t{1} << 40;

double overheads(const std::vector<message_load>& messages, double bytes) {
    double time = 0;
    for (const message_load& m : messages)
        time += m.count * m.overhead * (m.whole ? 1 : std::ceil(m.part * bytes / static_cast<double>(wire_segment)));
    return time;
}

bool between_gpus(fabric f) { return f == fabric::nvlink || f == fabric::pcie; }

// Ranks are processor cores that copy through memory they share.
bool through_memory(const hierarchy& machine, int l) {
    const fabric f = machine.levels[at(l)].medium;
    return !between_gpus(machine.levels.front().medium) && (f == fabric::shm || f == fabric::bus);
}

// Time to read or write one byte [s/B]: a reduction reads two and writes one.
double access_time(const hierarchy& machine) { return reduce_time(machine) / 3; }

double slowest(const std::vector<cpu_load>& loads, double bytes) {
    double time = 0;
    for (const cpu_load& l : loads) time = std::max(time, l.time(bytes));
    return time;
}

// A chain busies nobody for long, but what its processors do adds up along it.
double time_of(const phase_cost& p, double bytes) {
    const double processors = std::max(slowest(p.loads, bytes), overheads(p.path, bytes) + p.path_memory * bytes);
    const double wire = p.data * bytes;
    return p.latency + (p.in_memory ? std::max(wire, processors) : wire + processors);
}

double chunks_of(double bytes, std::int64_t chunk) {
    return chunk == 0 ? 1 : std::max(1.0, std::ceil(bytes / static_cast<double>(chunk)));
}

// The links of a machine in one row: of every level, the outgoing one of each child; then the incoming ones.
class link_table {
public:
    explicit link_table(const hierarchy& machine) : machine_(machine) {
        for (int l = 0; l < machine.depth(); ++l) {
            first_.push_back(static_cast<int>(rate_.size()));
            rate_.insert(rate_.end(), at(machine.shape.members(l)), machine.levels[at(l)].bandwidth);
        }
        half_ = static_cast<int>(rate_.size());
        rate_.insert(rate_.end(), rate_.begin(), rate_.begin() + half_);
    }

    int size() const { return 2 * half_; }
    double rate(int link) const { return rate_[at(link)]; }

    // Calls f(link) for every link between two ranks; returns the level at which they meet.
    template <class F>
    int cross(int from, int to, F&& f) const {
        int a = from, b = to, l = 0;
        for (;; ++l) {
            f(first_[at(l)] + a);
            f(half_ + first_[at(l)] + b);
            a = machine_.shape.domain_of(l, from);
            b = machine_.shape.domain_of(l, to);
            if (a == b) return l;
        }
    }

    // The busiest link of each level for these loads (in vectors).
    std::vector<link_cost> busiest(const std::vector<double>& loads) const {
        std::vector<link_cost> result;
        for (int l = 0; l < machine_.depth(); ++l) {
            link_cost worst{.level = l};
            for (int child = 0; child < machine_.shape.members(l); ++child) {
                const int link = first_[at(l)] + child;
                const double load = std::max(loads[at(link)], loads[at(half_ + link)]);
                if (load > worst.bytes * (1 + 1e-9)) worst.child = child, worst.bytes = load;
            }
            worst.time = worst.bytes / machine_.levels[at(l)].bandwidth;
            result.push_back(worst);
        }
        return result;
    }

private:
    const hierarchy& machine_;
    std::vector<double> rate_;
    std::vector<int> first_;
    int half_ = 0;
};

// Adds up what the cohorts of one stage do in one direction. Cohorts of different sizes have different patterns; the
// stage is cut into spans of steps in which no pattern changes.
class phase_meter {
public:
    phase_meter(const hierarchy& machine, const composed_stage& s, bool down)
        : machine_(machine), stage_(s), adds_(!down && s.how != mode::replicate), links_(machine),
          now_(at(links_.size())), ranks_(at(machine.ranks())) {
        made_.links.resize(at(links_.size()));
        made_.in_memory = true;
    }

    phase_cost measure(const std::vector<const pattern*>& patterns) {
        const std::set<int> ends = span_ends(patterns);
        int begin = 0;
        for (const int end : ends) {
            double startup = 0;
            for (std::size_t c = 0; c < patterns.size(); ++c)
                if (const exchange* e = exchange_at(*patterns[c], begin)) {
                    const double latency = add(stage_.cohorts[c], *patterns[c], *e, end - begin);
                    startup = std::max(startup, latency * e->startups / e->times);
                }
            made_.latency += startup * (end - begin);
            close_span(end - begin);
            extend_path(end - begin);
            begin = end;
        }
        for (std::size_t c = 0; c < patterns.size(); ++c) add_reductions(stage_.cohorts[c], *patterns[c]);
        sort_ranks();
        return std::move(made_);
    }

    // A native stage in shared memory: ranks read their peers' copies, or the root's, and write nobody else's.
    phase_cost measure_native(bool down, bool innermost) {
        for (const cohort& c : stage_.cohorts) {
            add_native(c, down, innermost);
            const int level = machine_.shape.common_level(c.members.front(), c.members.back());
            const int waits = stage_.how == mode::replicate ? 2 : 1;  // up: all have arrived; down: the result has
            made_.latency = std::max(made_.latency, waits * machine_.levels[at(level)].latency);
        }
        close_span(1);
        sort_ranks();
        return std::move(made_);
    }

private:
    static std::set<int> span_ends(const std::vector<const pattern*>& patterns) {
        std::set<int> ends;
        const pattern* previous = nullptr;
        for (const pattern* p : patterns) {
            if (p == previous) continue;
            previous = p;
            int step = 0;
            for (const exchange& e : p->exchanges) ends.insert(step += e.times);
        }
        return ends;
    }

    static const exchange* exchange_at(const pattern& p, int step) {
        for (const exchange& e : p.exchanges)
            if ((step -= e.times) < 0) return &e;
        return nullptr;
    }

    static double share(const cohort& c) { return static_cast<double>(c.segment.count()) / virtual_count; }

    // One cohort's messages during `steps` equal steps. Returns the largest latency among them.
    double add(const cohort& c, const pattern& p, const exchange& e, int steps) {
        double latency = 0;
        p.for_each_message(e, [&](int from, int to, double part) {
            const double load = part * share(c);
            const int sender = c.members[at(from)], receiver = c.members[at(to)];
            const int level = cross(sender, receiver, load);
            latency = std::max(latency, machine_.levels[at(level)].latency);
            if (load > largest_.first) largest_ = {load, level};
            made_.in_memory &= through_memory(machine_, level);
            ranks_[at(sender)].memory += static_cast<float>(load * steps * copying(level));
            ranks_[at(receiver)].memory += static_cast<float>(load * steps * copying(level));
            made_.largest_part = std::max(made_.largest_part, load);
            if (between_nodes(machine_.levels[at(level)].medium))
                made_.network_part = std::max(made_.network_part, load);
            count(ranks_[at(sender)].sent, load, level, steps);
            count(ranks_[at(receiver)].received, load, level, steps);
        });
        return latency;
    }

    int cross(int from, int to, double load) {
        return links_.cross(from, to, [&](int link) { occupy(link, load); });
    }

    void occupy(int link, double load) {
        if (now_[at(link)] == 0) touched_.push_back(link);
        now_[at(link)] += load;
    }

    // The transport copies a message in at one end and out at the other [s/B].
    double copying(int level) const {
        return through_memory(machine_, level) ? 2 * access_time(machine_) : 0;
    }

    // In vectors: what ranks read and write, and what crosses links. What one rank reads of the root's copy another
    // finds in the cache.
    void add_native(const cohort& c, bool down, bool innermost) {
        const double whole = share(c), ranks = static_cast<double>(c.members.size());
        const bool has_root = stage_.how == mode::root;
        const double reduced = has_root ? whole : whole / ranks;  // by each rank that reduces
        const double copied_in = !down && innermost ? 2 * whole : 0;  // not by the root: nobody reads its copy
        const double copied_out = down || stage_.how == mode::replicate ? 2 * whole : 0;
        const int root = c.members[at(c.root)];
        std::set<int> from_root;
        for (const int rank : c.members) {
            const double added_up = !down && (!has_root || rank == root) ? (ranks + 1) * reduced : 0;
            const double copied = (has_root && rank == root ? 0 : copied_in) + copied_out;
            ranks_[at(rank)].memory += static_cast<float>((added_up + copied) * access_time(machine_));
            for (const int peer : c.members) {
                if (peer == rank) continue;
                if (!has_root) cross(peer, rank, (stage_.how == mode::replicate ? 2 : 1) * whole / ranks);
                else if (!down && rank == root) cross(peer, rank, whole);
            }
            if (has_root && down && rank != root) links_.cross(root, rank, [&](int link) { from_root.insert(link); });
        }
        for (const int link : from_root) occupy(link, whole);
        made_.largest_part = std::max(made_.largest_part, reduced);
    }

    void count(std::vector<message_load>& messages, double load, int level, int steps) const {
        const terrace::level& met = machine_.levels[at(level)];
        message_load added{static_cast<float>(load), static_cast<float>(met.overhead), between_gpus(met.medium), 0};
        for (message_load& m : messages)
            if (m.part == added.part && m.overhead == added.overhead && m.whole == added.whole) {
                m.count += steps;
                return;
            }
        added.count = steps;
        messages.push_back(added);
    }

    // The steps of a span take as long as the busiest link does.
    void close_span(int steps) {
        double slowest_link = 0;
        for (const int link : touched_) {
            slowest_link = std::max(slowest_link, now_[at(link)] / links_.rate(link));
            made_.links[at(link)] += now_[at(link)] * steps;
            now_[at(link)] = 0;
        }
        made_.data += slowest_link * steps;
        touched_.clear();
    }

    // Not of replicate: a rank that only takes part at the end adds nothing up.
    void extend_path(int steps) {
        const auto [load, level] = std::exchange(largest_, {});
        count(made_.path, load, level, steps);
        made_.path_memory += load * steps * ((adds_ ? reduce_time(machine_) : 0) + 2 * copying(level));
    }

    void add_reductions(const cohort& c, const pattern& p) {
        for (std::size_t i = 0; i < p.reduced.size(); ++i)
            ranks_[at(c.members[i])].memory += static_cast<float>(p.reduced[i] * share(c) * reduce_time(machine_));
    }

    void sort_ranks() {
        std::map<cpu_load, int> kinds;
        for (cpu_load& load : ranks_) {
            std::sort(load.sent.begin(), load.sent.end());
            std::sort(load.received.begin(), load.received.end());
            const auto [kind, is_new] = kinds.try_emplace(load, static_cast<int>(kinds.size()));
            if (is_new) made_.loads.push_back(std::move(load));
            made_.load_of_rank.push_back(kind->second);
        }
    }

    const hierarchy& machine_;
    const composed_stage& stage_;
    bool adds_;  // what arrives
    link_table links_;
    std::vector<double> now_;   // of one step of the current span, by link
    std::vector<int> touched_;  // links with now_ > 0
    std::pair<double, int> largest_;  // message of the current span, and the level it crosses
    std::vector<cpu_load> ranks_;
    phase_cost made_;
};

}  // namespace

double reduce_time(const hierarchy& machine) noexcept {
    return between_gpus(machine.levels.front().medium) ? 1 / 200e9 : 1 / 8e9;
}

double cpu_load::time(double bytes) const {
    return std::max(overheads(sent, bytes), overheads(received, bytes)) + memory * bytes;
}

std::vector<const phase_cost*> stage_price::phases(collective what) const {
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
        key += fmt::format("{}-{}:{}:{}:{};", s.levels.front(), s.levels.back(), s.group, to_string(s.how),
                           s.algorithm);
    return key;
}

bool available(const hierarchy& machine, const stage& s, const algorithm& a) {
    if (!a.supports(s.how)) return false;
    return a.name != "native" || std::all_of(s.levels.begin(), s.levels.end(), [&](int l) {
        return through_memory(machine, l);
    });
}

pricer::pricer(const hierarchy& machine) : machine_(machine) {}

composition pricer::lay_out(std::span<const stage> stages) const { return compose(machine_, stages, virtual_count, 1); }

phase_cost pricer::price_phase(const composition& c, std::size_t number, const algorithm& a, bool down) {
    const composed_stage& s = c.stages[number];
    std::vector<const pattern*> patterns;
    for (const cohort& k : s.cohorts)
        patterns.push_back(&book_.of(a, s.how, down, static_cast<int>(k.members.size()), k.root));
    phase_meter meter(machine_, s, down);
    const bool native = !patterns.empty() && patterns.front()->native;
    return native ? meter.measure_native(down, number == 0) : meter.measure(patterns);
}

std::shared_ptr<const stage_price> pricer::price_stage(const composition& c, std::size_t number, const algorithm& a) {
    return std::make_shared<const stage_price>(
        stage_price{price_phase(c, number, a, false), price_phase(c, number, a, true)});
}

price pricer::price_stages(std::span<const stage> stages, collective what) {
    const composition c = lay_out(stages);
    std::vector<std::shared_ptr<const stage_price>> prices;
    for (std::size_t s = 0; s < c.stages.size(); ++s) prices.push_back(price_stage(c, s, *c.stages[s].by));
    return price(machine_, what, std::move(prices));
}

// What a stage costs depends on the stages inside it, not on their algorithms and not on the stages outside it.
std::vector<std::span<const pricer::option>> pricer::price_options(std::vector<stage> stages) {
    std::vector<std::vector<option>> able;
    for (stage& s : stages) {
        able.emplace_back();
        for (const algorithm& a : algorithms())
            if (available(machine_, s, a)) able.back().push_back({&a, nullptr});
        s.algorithm = able.back().front().by->name;
    }
    std::optional<composition> laid_out;
    std::vector<std::span<const option>> result;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const auto [known, is_new] = options_.try_emplace(key_of(std::span(stages).first(s + 1)));
        if (is_new) {
            if (!laid_out) laid_out = lay_out(stages);
            for (option& o : able[s]) o.cost = price_stage(*laid_out, s, *o.by);
            known->second = std::move(able[s]);
        }
        result.push_back(known->second);
    }
    return result;
}

price::price(const hierarchy& machine, collective what, std::vector<std::shared_ptr<const stage_price>> stages)
    : what_(what), stages_(std::move(stages)), ranks_(machine.ranks()) {
    for (const auto& s : stages_)
        for (const phase_cost* p : s->phases(what)) phases_.push_back(p);
    const link_table table(machine);
    std::vector<double> loads(at(table.size()));
    double network_part = 0, largest_part = 0;
    for (const phase_cost* p : phases_) {
        for (std::size_t link = 0; link < loads.size(); ++link) loads[link] += p->links[link];
        network_part = std::max(network_part, p->network_part);
        largest_part = std::max(largest_part, p->largest_part);
    }
    links_ = table.busiest(loads);
    for (const link_cost& l : links_) link_time_ = std::max(link_time_, l.time);
    if (largest_part > 0) shrink_ = 1 / (network_part > 0 ? network_part : largest_part);

    for (int rank = 0; rank < machine.ranks(); ++rank) {
        std::vector<int> kind;
        for (const phase_cost* p : phases_) kind.push_back(p->load_of_rank[at(rank)]);
        ++rank_kinds_[std::move(kind)];
    }
}

price::busy price::cpu_time(double bytes) const {
    std::vector<std::vector<double>> times;
    for (const phase_cost* p : phases_) {
        times.emplace_back();
        for (const cpu_load& l : p->loads) times.back().push_back(l.time(bytes));
    }
    busy result;
    for (const auto& [kind, ranks] : rank_kinds_) {
        double sum = 0;
        for (std::size_t p = 0; p < kind.size(); ++p) sum += times[p][at(kind[p])];
        result.most = std::max(result.most, sum);
        result.average += sum * ranks / ranks_;
    }
    return result;
}

double price::effort(double bytes, std::int64_t chunk) const {
    const double c = chunks_of(bytes, chunk);
    const busy b = cpu_time(bytes / c);
    return c * (b.most + b.average);
}

pipeline price::in_chunks(double bytes, std::int64_t chunk) const {
    pipeline p{.chunks = chunks_of(bytes, chunk)};
    const double each = bytes / p.chunks;
    for (const phase_cost* phase : phases_) p.sum += time_of(*phase, each);
    p.busiest = std::max(link_time_ * each, cpu_time(each).most);
    return p;
}

prediction price::explain(double bytes, int lanes, std::int64_t chunk) const {
    prediction p;
    p.links = links_;
    p.stages.resize(stages_.size());
    if (bytes > 0) {
        const double c = chunks_of(bytes, chunk);
        p.time = time(bytes, lanes, chunk);
        for (std::size_t s = 0; s < stages_.size(); ++s) {
            p.stages[s].time = stages_[s]->time(bytes / c, what_);
            for (const phase_cost* each : stages_[s]->phases(what_)) p.stages[s].latency += each->latency;
        }
        p.cpu_time = c * cpu_time(bytes / c).most;
    }
    for (link_cost& l : p.links) {
        l.bytes *= bytes;
        l.time *= bytes;
    }
    return p;
}

}  // namespace terrace
