#include "planner/simulate/simulate.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/wire.hpp"
#include "planner/pricer.hpp"
#include "planner/simulate/connections.hpp"
#include "planner/simulate/memory_stages.hpp"
#include "planner/simulate/processor_times.hpp"
#include "planner/simulate/program.hpp"
#include "schedule/lane_machine.hpp"
#include "schedule/machine_schedules.hpp"

namespace terrace::detail {

namespace sim {

namespace {

// Runs the lanes of all ranks. Instructions issued by their lane_machines occupy processors and links, and events
// report their completion.
class simulator {
public:
    simulator(const hierarchy& machine, call_programs programs, link_loads& loads, const simulation_options& options)
        : machine_(machine),
          programs_(std::move(programs)),
          cpus_(machine),
          net_(machine, loads, events_),
          stages_(programs_, cpus_, net_, events_),
          notes_spans_(options.cache == nullptr),
          progress_(options.progress),
          until_(options.until),
          most_shares_(options.most_shares > 0 ? options.most_shares : std::numeric_limits<std::int64_t>::max()),
          left_(programs_.instrs()),
          all_(std::max<std::int64_t>(left_, 1)) {
        for (int r = 0; r < machine.ranks(); ++r) lanes_.emplace_back(at(programs_.order.lanes), lane(programs_.order));
        starters_.assign(lanes_.size(), lane_starter(lane_start::all_at_once));
    }

    void run() {
        for (int r = 0; r < static_cast<int>(lanes_.size()); ++r)
            for_lanes_of(r, [&](auto&&... f) { starters_[at(r)].start(programs_.order.lanes_used(), f...); });
        while (!events_.empty() && events_.next() <= until_ && net_.shares() <= most_shares_) {
            for (events_.advance(); events_.has_due();) handle(events_.take());
            net_.share_links();
        }
        if (left_ != 0 && events_.empty())
            throw plan_error("simulate: ranks wait for one another for ever; please report this");
    }

    void report(simulation& made) {
        made.time = left_ == 0 ? end_ : std::numeric_limits<double>::infinity();
        made.messages = messages_;
        made.work = all_ - left_ + net_.shares();
        made.processors = cpus_.busy();
        made.spans = std::move(spans_);
    }

private:
    struct lane {
        explicit lane(const chunk_order& order) : machine(order, slots_each_way) {}

        lane_machine machine;
        double bytes(std::uint32_t n) const { return code->instrs[n].bytes * factor; }

        const sim_program* code = nullptr;      // of the current chunk
        double factor = 1;                      // scale of its programs
        std::vector<std::uint32_t> phase_left;  // by phase: number of incomplete instructions
        std::vector<double> phase_begin;        // by phase [s]; negative: not begun
    };

    // Executes the instructions that a lane_machine issues, which take time.
    struct port {
        // A copy occupies the rank's processor. Meanwhile messages arrive and are issued.
        static constexpr bool locals_take_time = true;

        const lane_code* begin_chunk(std::int64_t chunk) {
            const scaled_programs& programs = all.programs_.of(chunk);
            l.code = &programs.of->of_rank[at(id.rank)];
            l.factor = programs.factor;
            if (all.notes_spans_) {
                l.phase_left = l.code->of_phase;
                l.phase_begin.assign(l.phase_left.size(), -1);
            }
            return &l.code->order;
        }
        void end_chunk() {}
        void end_lane() {}
        std::uint32_t segments(std::uint32_t n) { return segments_of(all.machine_, l.bytes(n)); }
        void send(std::uint32_t n, std::uint32_t) { all.send(id, n); }
        void receive(std::uint32_t n, std::uint32_t) { all.expect(id, n); }
        void start_stage(std::uint32_t n) {
            all.begins(l, n, all.events_.now());
            all.stages_.arrive(l.machine.chunk(), {id, n});
        }
        void run_local(std::uint32_t n) { all.run_local(id, n); }
        void completed(std::uint32_t n) { all.completed(id, l, l.code->instrs[n].phase); }

        simulator& all;
        lane_id id;
        lane& l;
    };

    lane& lane_of(lane_id id) { return lanes_[at(id.rank)][at(id.lane)]; }
    port port_of(lane_id id) { return {*this, id, lane_of(id)}; }

    void begin(lane_id id) {
        port p = port_of(id);
        p.l.machine.run_from(p, p.l.machine.order().first_of(id.lane));
        p.l.machine.issue(p);
    }

    // Calls f with two functions for lane_starter: whether a lane lets the next one begin, and how a lane begins.
    template <class F>
    void for_lanes_of(int rank, F&& f) {
        f([&](int l) { return lane_of({rank, l}).machine.lets_next_begin(); }, [&](int l) { begin({rank, l}); });
    }

    // Completes a segment of a message, or all of another instruction.
    void complete(lane_id id, std::uint32_t n) {
        end_ = events_.now();
        port p = port_of(id);
        p.l.machine.complete(p, n);
        p.l.machine.issue(p);
        for_lanes_of(id.rank, [&](auto&&... f) { starters_[at(id.rank)].go_on(f...); });
    }

    // ---- spans of stages ----

    void begins(lane& l, std::uint32_t n, double when) const {
        if (!notes_spans_) return;
        double& begin = l.phase_begin[l.code->instrs[n].phase];
        if (begin < 0) begin = when;
    }

    void completed(lane_id id, lane& l, std::uint16_t number) {
        if (--left_; progress_ && (left_ & 0xffff) == 0)
            progress_(1 - static_cast<double>(left_) / static_cast<double>(all_));
        if (!notes_spans_ || --l.phase_left[number] > 0 || l.phase_begin[number] < 0) return;
        const phase& of = l.code->phases[number];
        spans_.push_back(
            {l.phase_begin[number], events_.now(), id.rank, id.lane, l.machine.chunk(), of.stage, of.down, of.route});
    }

    // ---- instructions issued ----

    // Returns a segment of a message; all its segments are equal.
    segment segment_of(lane_id id, std::uint32_t n) {
        const double bytes = lane_of(id).bytes(n);
        return {id, n, bytes / segments_of(machine_, bytes)};
    }

    void send(lane_id id, std::uint32_t n) {
        lane& l = lane_of(id);
        const int number = net_.between(id.rank, l.code->instrs[n].peer);
        const connections::endpoints& to = net_.ends_of(number);
        const double copied = to.copies > 0 ? to.copies * segment_of(id, n).bytes : 0;
        ++messages_;
        begins(l, n, events_.now());
        events_.add({.time = cpus_.send(id.rank, events_.now(), to.overhead, copied),
                     .subject = number,
                     .lane = id.lane,
                     .instruction = n,
                     .what = event::posted});
    }

    void expect(lane_id id, std::uint32_t n) {
        const int number = net_.between(lane_of(id).code->instrs[n].peer, id.rank);
        net_.expect(number, segment_of(id, n));
        receive(number, id.lane);
    }

    void run_local(lane_id id, std::uint32_t n) {
        const double now = events_.now(), bytes = lane_of(id).bytes(n);
        if (bytes > 0) begins(lane_of(id), n, cpus_.free_at(id.rank, now));
        work(id, n, bytes > 0 ? cpus_.work(id.rank, now, 0, bytes) : now);
    }

    void work(lane_id id, std::uint32_t n, double until) {
        events_.add({.time = until, .subject = id.rank, .lane = id.lane, .instruction = n, .what = event::worked});
    }

    // Occupies the receiver with segments that have arrived and are expected.
    void receive(int number, int lane_number) {
        const connections::endpoints& from = net_.ends_of(number);
        while (const std::optional<segment> s = net_.take_received(number, lane_number)) {
            const lane& l = lane_of(s->owner);
            const int adds = l.code->instrs[s->instruction].what == action::recv_reduce ? 3 : 0;
            begins(lane_of(s->owner), s->instruction, cpus_.free_at(from.to, events_.now()));
            work(s->owner, s->instruction,
                 cpus_.work(from.to, events_.now(), from.overhead, (from.copies + adds) * s->bytes));
        }
    }

    // ---- events ----

    void handle(const event& e) {
        switch (e.what) {
            case event::posted:
                return net_.enqueue(e.subject, segment_of({net_.ends_of(e.subject).from, e.lane}, e.instruction));
            case event::passed_links: return passed(e);
            case event::arrived: net_.arrive(e.subject, e.lane); return receive(e.subject, e.lane);
            case event::worked: return worked({e.subject, e.lane}, e.instruction);
            case event::gathered:
                for (const memory_stages::participant& p : stages_.gathered(e.chunk, e.subject))
                    complete(p.who, p.instruction);
                return;
        }
    }

    void passed(const event& e) {
        const std::optional<segment> s = net_.take_passed(e.subject, e.time);
        if (!s) return;
        const connections::endpoints& ends = net_.ends_of(e.subject);
        if (ends.to < 0) return stages_.link_passed(lane_of(s->owner).machine.chunk(), {s->owner, s->instruction});
        // The receiver's overhead is part of the latency, unless the receiver is busy.
        events_.add({.time = events_.now() + std::max(0.0, ends.latency - ends.overhead),
                     .subject = e.subject,
                     .lane = s->owner.lane,
                     .what = event::arrived});
        complete(s->owner, s->instruction);
    }

    void worked(lane_id id, std::uint32_t n) {
        const lane& l = lane_of(id);
        if (is_stage(l.code->instrs[n].what)) stages_.worked(l.machine.chunk(), {id, n});
        else complete(id, n);
    }

    const hierarchy& machine_;
    call_programs programs_;
    event_queue events_;
    processor_times cpus_;
    connections net_;
    memory_stages stages_;
    const bool notes_spans_;
    const std::function<void(double)>& progress_;
    double until_;
    std::int64_t most_shares_;
    std::vector<std::vector<lane>> lanes_;  // by rank
    std::vector<lane_starter> starters_;    // by rank
    double end_ = 0;                        // time of the last completion so far; later events may have become void
    std::int64_t left_, all_;               // instructions left, and at the start
    std::int64_t messages_ = 0;
    std::vector<stage_span> spans_;
};

// Returns the programs of all ranks for a call. @param made gets the call's chunks and lanes
call_programs prepare(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                      const simulation_options& options, const link_loads& loads, simulation& made) {
    constexpr std::int64_t sample_bytes = std::int64_t{1} << 30;  // length of the programs that are scaled
    const std::int64_t slot = options.slot_bytes > 0 ? options.slot_bytes : slot_bytes(std::span(&how, 1));
    const slicing chunks = made.chunks = slices_of(machine, how, what, bytes, slot);
    made.lanes = static_cast<int>(std::min<std::int64_t>(how.lanes, chunks.chunks));
    const std::int64_t most = options.most_steps > 0 ? options.most_steps : most_simulated;
    const std::int64_t ranks = machine.ranks(), blocks = row_of(what).blocks ? ranks : 1;
    const auto programs = [&](std::int64_t elements, std::int64_t number) {
        const bool is_scaled = options.cache != nullptr && elements * blocks >= ranks;
        const std::int64_t count = is_scaled ? sample_bytes / float32_bytes / blocks : elements;
        const double factor = static_cast<double>(elements) / static_cast<double>(count);
        std::shared_ptr<const sim_programs> own;
        auto& found =
            options.cache != nullptr ? options.cache->programs[fmt::format("{} {}", key_of(how.stages), count)] : own;
        if (found == nullptr)
            found = std::make_shared<const sim_programs>(programs_of(
                machine, how, what, count, is_scaled ? 0 : slot, options.reproducible, loads, factor, number, most));
        return scaled_programs{found, factor};
    };
    call_programs call{.order = {chunks.chunks, made.lanes}};
    if (chunks.chunks > 1) call.full = programs(chunks.chunk, chunks.chunks);
    call.tail = programs(chunks.tail, 1);
    return call;
}

}  // namespace

}  // namespace sim

simulation simulate(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                    const simulation_options& options) {
    std::optional<link_loads> own;
    link_loads& loads = options.cache != nullptr ? options.cache->links : own.emplace(machine);
    simulation made;
    sim::simulator run(machine, sim::prepare(machine, how, what, bytes, options, loads, made), loads, options);
    run.run();
    run.report(made);
    if (own) {
        made.interval = own->interval();
        made.links = own->take();
    }
    return made;
}

}  // namespace terrace::detail
