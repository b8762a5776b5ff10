#include "planner/simulate/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "base/wire.hpp"
#include "planner/cost.hpp"
#include "planner/simulate/flows.hpp"
#include "planner/simulate/program.hpp"

namespace terrace {

namespace {

constexpr double not_looked_at = std::numeric_limits<double>::infinity();

class simulator {
public:
    simulator(const hierarchy& machine, const slicing& chunks, int lanes, sim_programs full, sim_programs tail,
              link_loads& loads, const simulation_options& options)
        : machine_(machine),
          chunks_(chunks),
          full_(std::move(full)),
          tail_(std::move(tail)),
          flows_(loads, options.burst),
          progress_(options.progress),
          ranks_(at(machine.ranks())),
          cores_(at(machine.shared_cores())),
          turn_(turn_time(machine)),
          access_(access_time(machine)) {
        left_ = (chunks.chunks - 1) * full_.steps + tail_.steps;
        all_ = std::max<std::int64_t>(left_, 1);
        for (rank& r : ranks_) r.lanes.resize(at(lanes));
    }

    void run() {
        for (int r = 0; r < machine_.ranks(); ++r)
            for (int l = 0; l < lanes(); ++l) start_chunk({r, l}, l);
        while (!events_.empty()) {
            now_ = events_.top().time;
            // Events that only rounding tells apart are one moment.
            while (!events_.empty() && events_.top().time <= now_ * (1 + 1e-12) + 1e-15) {
                const event e = events_.top();
                events_.pop();
                handle(e);
            }
            flows_.share(
                now_,
                [&](int flow, double end) {
                    way& w = ways_[at(flow)];
                    w.end = end;
                    if (end < w.looked_at) look_at(flow, w);
                },
                [&](int link, double when, std::uint32_t version) {
                    add({.time = when, .what = event::run_out, .whose = link, .version = version});
                });
        }
        if (left_ != 0) throw plan_error("simulate: ranks wait for one another for ever; please report this");
    }

    double end() const noexcept { return end_; }
    std::int64_t messages() const noexcept { return messages_; }
    std::int64_t shares() const noexcept { return flows_.shares(); }
    std::vector<stage_span> take_spans() noexcept { return std::move(spans_); }
    std::vector<double> processors() const {
        std::vector<double> busy;
        for (const rank& r : ranks_) busy.push_back(std::max(r.sending.busy, r.working.busy));
        return busy;
    }

private:
    struct place {
        int rank = 0, lane = 0;
    };

    struct event {
        enum kind : std::uint8_t { handed, crossed, there, done, met, run_out };
        double time = 0;
        std::uint64_t order = 0;
        kind what = done;
        int whose = 0;  // way, rank, meeting or link
        int lane = 0;
        std::uint32_t instruction = 0;
        std::uint32_t version = 0;
        double bytes = 0;
        std::int64_t chunk = 0;

        friend bool operator<(const event& a, const event& b) noexcept {
            return std::pair(b.time, b.order) < std::pair(a.time, a.order);  // the earliest on top
        }
    };

    // One hand of a rank's processor: does one thing after another.
    struct hand {
        double free = 0, busy = 0;
    };

    struct cursor {
        std::size_t message = 0;
        std::uint32_t done = 0;  // segments of it that have been issued
        int free = slots_each_way;
    };

    struct lane {
        const sim_program* code = nullptr;
        std::int64_t chunk = 0;
        std::vector<std::uint32_t> waits, segments;  // by instruction
        std::vector<std::uint32_t> phase_left;
        std::vector<double> phase_begin;
        std::size_t left = 0;
        cursor sends, recvs;
        std::size_t stage = 0;
        bool stage_runs = false;
    };

    struct rank {
        hand sending, working;
        std::vector<lane> lanes;
    };

    struct segment {
        place whose;
        std::uint32_t instruction = 0;
        double bytes = 0;
    };

    // From one rank to another: what is sent first arrives first. Or a link, which passes the data of native stages.
    struct way {
        int from = -1, to = -1;
        double latency = 0, overhead = 0;
        int copies = 0;  // times that a processor at each end touches a byte
        std::deque<segment> line;
        struct receiver {
            std::deque<segment> posted;
            int arrived = 0;
        };
        std::vector<receiver> lanes;
        double end = 0;                    // of the first in line, as its rate is now
        double looked_at = not_looked_at;  // by an event, whether it is through then or later
    };

    struct gathering {
        std::vector<std::pair<place, std::uint32_t>> who;
        std::size_t through = 0;
        int round = 0;
        std::size_t left = 0;  // links that its data have not passed yet, and one for the work of all rounds
    };

    int lanes() const noexcept { return static_cast<int>(ranks_.front().lanes.size()); }
    lane& lane_of(place p) { return ranks_[at(p.rank)].lanes[at(p.lane)]; }
    void add(event e) {
        e.order = ++order_;
        events_.push(e);
    }

    int way_between(int from, int to) {
        const auto [known, is_new] = way_of_.try_emplace({from, to}, static_cast<int>(ways_.size()));
        if (is_new) {
            const int l = machine_.shape.common_level(from, to);
            const level& met = machine_.levels[at(l)];
            way& w = ways_.emplace_back();
            w.from = from, w.to = to;
            w.latency = met.latency + turn_, w.overhead = met.overhead;
            w.copies = through_memory(machine_, l) ? 2 : 0;
            w.lanes.resize(at(lanes()));
            flows_.add(from, to);
        }
        return known->second;
    }

    int way_over(int link) {
        const auto [known, is_new] = way_of_.try_emplace({link, -1}, static_cast<int>(ways_.size()));
        if (is_new) ways_.emplace_back(), flows_.add(link);
        return known->second;
    }

    void look_at(int number, way& w) {
        w.looked_at = w.end;
        add({.time = w.end, .what = event::crossed, .whose = number});
    }

    void line_up(int number, const segment& s) {
        way& w = ways_[at(number)];
        w.line.push_back(s);
        if (w.line.size() == 1) flows_.begin(number, s.bytes, now_);
    }

    // ---- one lane of one rank, as in lib/executor ----

    void start_chunk(place p, std::int64_t chunk) {
        lane& l = lane_of(p);
        for (;; chunk += lanes()) {
            if (chunk >= chunks_.chunks) {
                l.code = nullptr;
                return;
            }
            l.code = &(chunk == chunks_.chunks - 1 ? tail_ : full_).of_rank[at(p.rank)];
            if (!l.code->instrs.empty()) break;
        }
        l.chunk = chunk;
        l.waits.clear();
        l.segments.clear();
        for (const sim_instr& i : l.code->instrs) l.waits.push_back(i.waits), l.segments.push_back(i.segments);
        l.phase_left = l.code->of_phase;
        l.phase_begin.assign(l.phase_left.size(), -1);
        l.left = l.code->instrs.size();
        l.sends.message = l.recvs.message = 0;
        l.sends.done = l.recvs.done = 0;
        l.stage = 0;
        for (const std::uint32_t n : l.code->locals)
            if (l.waits[n] == 0) work_on(p, n);
        advance(p);
    }

    void advance(place p) {
        lane& l = lane_of(p);
        if (l.code == nullptr) return;
        issue(p, l, l.recvs, l.code->recvs, true);
        issue(p, l, l.sends, l.code->sends, false);
        if (l.stage_runs || l.stage == l.code->stages.size() || l.waits[l.code->stages[l.stage]] > 0) return;
        l.stage_runs = true;
        begins(l, l.code->stages[l.stage], now_);
        arrive(p, l.code->stages[l.stage], l);
    }

    void issue(place p, lane& l, cursor& c, const std::vector<std::uint32_t>& messages, bool receiving) {
        while (c.message < messages.size() && c.free > 0 && l.waits[messages[c.message]] == 0) {
            const std::uint32_t n = messages[c.message];
            const sim_instr& i = l.code->instrs[n];
            if (i.follows && c.done == 0 && c.free < slots_each_way) return;
            const int number = receiving ? way_between(i.peer, p.rank) : way_between(p.rank, i.peer);
            way& w = ways_[at(number)];
            const segment s{p, n, i.bytes / i.segments};
            --c.free;
            if (++c.done == i.segments) ++c.message, c.done = 0;
            if (receiving) {
                w.lanes[at(p.lane)].posted.push_back(s);
                take_arrived(w, p.lane);
                continue;
            }
            ++messages_;
            begins(l, n, now_);
            add({.time = hand_over(ranks_[at(p.rank)], w.overhead, w.copies * s.bytes),
                 .what = event::handed,
                 .whose = number,
                 .lane = p.lane,
                 .instruction = n,
                 .bytes = s.bytes});
        }
    }

    // What is both there and asked for keeps its receiver busy.
    void take_arrived(way& w, int lane_number) {
        way::receiver& r = w.lanes[at(lane_number)];
        while (r.arrived > 0 && !r.posted.empty()) {
            const segment s = r.posted.front();
            r.posted.pop_front();
            --r.arrived;
            lane& l = lane_of({w.to, lane_number});
            const int adds = l.code->instrs[s.instruction].what == action::recv_reduce ? 3 : 0;
            hand& h = ranks_[at(w.to)].working;
            begins(l, s.instruction, std::max(now_, h.free));
            add({.time = take(h, w.overhead, (w.copies + adds) * s.bytes),
                 .what = event::done,
                 .whose = w.to,
                 .lane = lane_number,
                 .instruction = s.instruction});
        }
    }

    void work_on(place p, std::uint32_t n) {
        lane& l = lane_of(p);
        const double bytes = l.code->instrs[n].bytes;
        hand& h = ranks_[at(p.rank)].working;
        if (bytes > 0) begins(l, n, std::max(now_, h.free));
        add({.time = bytes > 0 ? take(h, 0, bytes) : now_,
             .what = event::done,
             .whose = p.rank,
             .lane = p.lane,
             .instruction = n});
    }

    // When a message is on its way. What the sender copies keeps it from whatever else is to be done in memory.
    double hand_over(rank& r, double overhead, double bytes) noexcept {
        const double handed = take(r.sending, overhead, 0);
        if (bytes == 0) return handed;
        r.working.free = std::max(r.working.free, handed);
        return take(r.working, 0, bytes);
    }

    // When it is through with one end of a message, and with so many bytes. Where ranks share cores, the one that is
    // free first does it.
    double take(hand& h, double overhead, double bytes) noexcept {
        const double time = overhead + bytes * access_;
        h.busy += time;
        h.free = std::max(h.free, now_) + time;
        if (cores_.empty()) return h.free;
        double& core = *std::min_element(cores_.begin(), cores_.end());
        core = std::max(core, now_) + time;
        return h.free = std::max(h.free, core);
    }

    static void begins(lane& l, std::uint32_t n, double when) {
        double& begin = l.phase_begin[l.code->instrs[n].phase];
        if (begin < 0) begin = when;
    }

    // A part of an instruction is done, or all of it.
    void done(place p, std::uint32_t n) {
        lane& l = lane_of(p);
        const sim_instr& i = l.code->instrs[n];
        if (i.what == action::send) ++l.sends.free;
        if (i.what == action::recv || i.what == action::recv_reduce) ++l.recvs.free;
        end_ = now_;
        if (--left_; progress_ && (left_ & 0xffff) == 0)
            progress_(1 - static_cast<double>(left_) / static_cast<double>(all_));
        if (--l.segments[n] == 0) complete(p, l, n);
        advance(p);
    }

    void complete(place p, lane& l, std::uint32_t n) {
        const sim_instr& i = l.code->instrs[n];
        --l.left;
        if (--l.phase_left[i.phase] == 0 && l.phase_begin[i.phase] >= 0) {
            const phase& of = l.code->phases[i.phase];
            spans_.push_back({l.phase_begin[i.phase], now_, p.rank, p.lane, l.chunk, of.stage, of.down, of.route});
        }
        for (std::uint32_t s = 0; s < i.successors; ++s) {
            const std::uint32_t next = l.code->successors[i.first_successor + s];
            const action what = l.code->instrs[next].what;
            if (--l.waits[next] == 0 && (what == action::copy || what == action::reduce)) work_on(p, next);
        }
        if (l.left == 0) start_chunk(p, l.chunk + lanes());
    }

    // ---- native stages ----

    meeting& meeting_of(const lane& l, std::uint32_t n) {
        sim_programs& all = l.chunk == chunks_.chunks - 1 ? tail_ : full_;
        return all.meetings[at(l.code->instrs[n].peer)];
    }
    gathering& gathering_of(const lane& l, std::uint32_t n) {
        return gatherings_[std::pair(l.chunk, l.code->instrs[n].peer)];
    }

    void arrive(place p, std::uint32_t n, lane& l) {
        gathering& g = gathering_of(l, n);
        g.who.emplace_back(p, n);
        const meeting& m = meeting_of(l, n);
        if (g.who.size() == m.ranks) all_met(l, n, m.latency);
    }

    void all_met(const lane& l, std::uint32_t n, double after) {
        add({.time = now_ + after, .what = event::met, .whose = l.code->instrs[n].peer, .chunk = l.chunk});
    }

    // All have come so far: they work, or leave.
    void meet(int number, std::int64_t chunk) {
        const key which(chunk, number);
        gathering& g = gatherings_[which];
        const meeting& m = (chunk == chunks_.chunks - 1 ? tail_ : full_).meetings[at(number)];
        g.through = 0;
        if (g.round == 0) {
            g.left = m.links.size() + 1;
            const auto& [p, n] = g.who.front();
            for (const auto& [link, bytes] : m.links) line_up(way_over(link), {p, n, bytes});
        }
        if (g.round++ < m.rounds) {
            for (const auto& [p, n] : g.who) {
                const sim_instr& i = lane_of(p).code->instrs[n];
                const double bytes = g.round == 1 ? i.bytes : i.again;
                add({.time = take(ranks_[at(p.rank)].working, 0, bytes),
                     .what = event::done,
                     .whose = p.rank,
                     .lane = p.lane,
                     .instruction = n});
            }
            return;
        }
        const gathering over = std::move(g);
        gatherings_.erase(which);
        for (const auto& [p, n] : over.who) {
            lane& l = lane_of(p);
            l.stage_runs = false;
            ++l.stage;
            done(p, n);
        }
    }

    void worked(place p, std::uint32_t n) {
        lane& l = lane_of(p);
        gathering& g = gathering_of(l, n);
        const meeting& m = meeting_of(l, n);
        if (++g.through < m.ranks) return;
        if (g.round < m.rounds) return all_met(l, n, m.latency);
        passed(p, n);
    }

    // A link by all data of a stage, or its ranks by all their work.
    void passed(place p, std::uint32_t n) {
        lane& l = lane_of(p);
        const meeting& m = meeting_of(l, n);
        if (--gathering_of(l, n).left == 0) all_met(l, n, m.closes ? m.latency : 0);
    }

    // ---- events ----

    void handle(const event& e) {
        switch (e.what) {
            case event::handed: return line_up(e.whose, {{ways_[at(e.whose)].from, e.lane}, e.instruction, e.bytes});
            case event::crossed: {
                way& w = ways_[at(e.whose)];
                if (e.time != w.looked_at) return;
                if (w.end > e.time) return look_at(e.whose, w);
                w.looked_at = not_looked_at;
                const segment s = w.line.front();
                w.line.pop_front();
                flows_.end(e.whose, now_);
                if (!w.line.empty()) flows_.begin(e.whose, w.line.front().bytes, now_);
                if (w.to < 0) return passed(s.whose, s.instruction);
                // What it costs the receiver is part of the start-up, unless he is busy.
                add({.time = now_ + std::max(0.0, w.latency - w.overhead),
                     .what = event::there,
                     .whose = e.whose,
                     .lane = s.whose.lane});
                done(s.whose, s.instruction);
                return;
            }
            case event::there: {
                way& w = ways_[at(e.whose)];
                ++w.lanes[at(e.lane)].arrived;
                take_arrived(w, e.lane);
                return;
            }
            case event::done: {
                const place p{e.whose, e.lane};
                if (is_stage(lane_of(p).code->instrs[e.instruction].what)) worked(p, e.instruction);
                else done(p, e.instruction);
                return;
            }
            case event::run_out: flows_.run_out(e.whose, e.version); return;
            case event::met: meet(e.whose, e.chunk); return;
        }
    }

    using key = std::pair<std::int64_t, int>;
    struct hash_of_key {
        std::size_t operator()(const key& k) const noexcept {
            return std::hash<std::int64_t>()(k.first * 1'000'003 + k.second);
        }
    };

    const hierarchy& machine_;
    slicing chunks_;
    sim_programs full_, tail_;
    flows flows_;
    const std::function<void(double)>& progress_;
    std::vector<rank> ranks_;
    std::vector<double> cores_;                                   // that all ranks share: when each is free [s]
    double turn_;                                                 // turn_time [s]
    double access_;                                               // a byte read or written [s]
    std::unordered_map<key, int, hash_of_key> way_of_;            // by both ranks, or link and -1
    std::deque<way> ways_;                                        // by number of their flow
    std::unordered_map<key, gathering, hash_of_key> gatherings_;  // by chunk and meeting
    std::priority_queue<event> events_;
    std::uint64_t order_ = 0;
    double now_ = 0;
    double end_ = 0;  // of the last instruction so far: what comes later may be a way's end that is none any more
    std::int64_t left_ = 0, all_ = 1, messages_ = 0;
    std::vector<stage_span> spans_;
};

}  // namespace

simulation simulate(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                    const simulation_options& options) {
    const int blocks = has_blocks(what) ? machine.ranks() : 1;
    const std::int64_t count = div_ceil(bytes, element * blocks), alone = slot_bytes(std::span(&how, 1));
    const std::int64_t slot = options.slot_bytes > 0 ? options.slot_bytes : alone;
    const bool native = std::any_of(how.stages.begin(), how.stages.end(), [&](const stage& s) {
        return s.algorithm == "native" && !memory_domains(machine).empty();
    });
    simulation made;
    made.chunks = slice(count, element, how, blocks, native ? static_cast<std::size_t>(slot) : 0);
    made.lanes = static_cast<int>(std::min<std::int64_t>(how.lanes, made.chunks.chunks));
    link_loads loads(machine);
    const auto programs = [&](std::int64_t elements, std::int64_t chunks) {
        return programs_of(machine, how, what, elements, slot, loads, chunks);
    };
    const bool one = made.chunks.chunks == 1;
    sim_programs full = one ? sim_programs{} : programs(made.chunks.chunk, made.chunks.chunks);
    sim_programs tail = programs(made.chunks.tail, 1);
    simulator run(machine, made.chunks, made.lanes, std::move(full), std::move(tail), loads, options);
    run.run();
    made.time = run.end();
    made.messages = run.messages();
    made.shares = run.shares();
    made.processors = run.processors();
    made.spans = run.take_spans();
    made.interval = loads.interval();
    made.links = loads.take();
    return made;
}

}  // namespace terrace
