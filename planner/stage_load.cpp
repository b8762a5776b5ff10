#include "planner/stage_load.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/index.hpp"
#include "base/wire.hpp"
#include "machine/rates.hpp"
#include "planner/figures.hpp"
#include "schedule/provider_stage.hpp"

namespace terrace::detail {

namespace {

class phase_counter {
public:
    phase_counter(const stage_phase& phase, link_sums& sums)
        : phase_(phase),
          machine_(phase.machine),
          ratio_(wire_ratio(phase.wire, sizeof(float))),
          has_levels_alone_(machine_.nics.empty() && std::ranges::none_of(machine_.levels, &level::ring)),
          now_(sums.now),
          all_(sums.all),
          headers_(sums.headers),
          loads_(phase.ranks.count()),
          memory_(phase.ranks.count()),
          sent_now_(phase.ranks.count()) {
        for (const level& l : machine_.levels) {
            const device_rates r = rates_on(l);
            slowness_.push_back(l.bandwidth / r.bandwidth);
        }
    }

    void count(const moving_domain& domain) {
        held_startups_.clear();
        held_wire_.clear();
        startups_ = wire_ = header_time_ = path_parts_ = 0;
        path_.clear();
        path_memory_ = 0;
        const moving_group& first = domain.front();
        const auto adds = [](const moving_group& g) {
            return std::ranges::any_of(g.how.reduced, [](double part) { return part > 0; });
        };
        adds_ = std::ranges::any_of(domain, adds);
        sampled_.clear();
        for (int i = 0; phase_.all_groups && i < first.who.size(); ++i) sampled_.push_back(i);
        for (const moving_group& g : domain)
            for (const moving_group::member& m : g.sampled) sampled_.push_back(m.position);
        keep_different(sampled_);
        if (first.how.provider_action) run_by_provider(domain);
        else run_steps(domain);
        if (first.side_by_side) {
            made_.side_by_side = true;
            held_startups_.clear();
            held_wire_.clear();
        }
        add_work(domain);
        end_domain();
    }

    phase_load finish() {
        std::ranges::sort(touched_ever_);
        for (const int link : touched_ever_)
            if (const double vectors = std::exchange(all_[at(link)], 0); phase_.ranks.are_above(link))
                made_.links.push_back({link, vectors, vectors * time_on(link, phase_.rows.row_of(link))});
        for (std::size_t i = 0; i < loads_.size(); ++i) {
            std::ranges::sort(loads_[i].sent);
            std::ranges::sort(loads_[i].received);
            loads_[i].memory = static_cast<float>(memory_[i]);
        }
        set_loads(made_, std::move(loads_), phase_.ranks.weights());
        return std::move(made_);
    }

private:
    // Ends of a message that are counted.
    struct ends {
        bool from = true, to = true;
    };
    // Properties of a step's messages.
    struct step {
        int times = 1;
        double latency = 0;
        double largest = 0;  // part of the largest message
        int level = 0;       // level that the largest message crosses
        // Messages of the busiest position in one direction, one after the other: number and sum of parts.
        int at_once = 1;
        double together = 0;
    };
    struct end_use {
        int messages = 0;
        double part = 0;
    };
    // Progress of a group through its steps.
    struct cursor {
        const moving_group* of;
        std::size_t next = 0;  // first message of the next step
        int done = 0;          // repetitions of this step that are done

        const group_message& first() const { return of->how.messages[next]; }
        bool is_open() const { return next < of->how.messages.size(); }
        int step() const { return first().step + done; }
        int left() const { return first().times - done; }
        std::span<const group_message> now() const {
            const std::span<const group_message> all = std::span(of->how.messages).subspan(next);
            const auto is_later = [&](const group_message& m) { return m.step != all.front().step; };
            return {all.begin(), std::ranges::find_if(all, is_later)};
        }
        void pass(int times) {
            done += times;
            if (left() == 0) next += now().size(), done = 0;
        }
    };

    // Returns start-up and rate on a level's links: of the network, or of NCCL or MPI between GPUs.
    device_rates rates_on(const level& l) const {
        if (!on_gpus(machine_)) return {.step = l.latency, .bandwidth = l.bandwidth};
        return phase_.by == provider::mpi ? mpi_rates(l) : nccl_rates(l);
    }
    const level& level_at(int l) const { return machine_.levels[at(l)]; }
    int first_level() const { return phase_.what.levels.front(); }
    bool on_ring() const { return level_at(first_level()).ring; }
    // Returns the outermost level of the stage that joins several children.
    int outermost_joining() const {
        auto l = phase_.what.levels.rbegin();
        while (std::next(l) != phase_.what.levels.rend() && machine_.shape.uniform_size(*l) == 1) ++l;
        return *l;
    }
    // Returns the time to copy data that crosses a level, at one end [s/B]. Only messages in shared memory are copied.
    double copy_time(int l) const { return through_memory(machine_, l) ? 2 * access_time(machine_) : 0; }
    message_load messages(double part, int l, double count) const {
        const bool by_nccl = phase_.by != provider::mpi && on_gpus(machine_);
        const auto segment = static_cast<float>(by_nccl ? 0 : machine_.processors.segment);
        return {static_cast<float>(part), static_cast<float>(level_at(l).overhead), segment, count};
    }
    static void add(std::vector<message_load>& list, const message_load& more) {
        for (message_load& m : list)
            if (m.part == more.part && m.overhead == more.overhead && m.segment == more.segment) {
                m.count += more.count;
                return;
            }
        list.push_back(more);
    }

    // ---- steps of messages ----

    // Counts the steps of the groups of a domain, which take their steps together.
    void run_steps(const moving_domain& domain) {
        std::vector<cursor> open;
        for (const moving_group& g : domain)
            if (!g.how.messages.empty()) open.push_back({&g});
        const moving_group& first = domain.front();
        for (const moving_group& g : domain) {
            sends_.resize(std::max(sends_.size(), at(g.who.size())));
            receives_.resize(sends_.size());
        }
        if (!first.how.circulant && phase_.one_by_one)
            held_startups_.resize(at(first.who.size())), held_wire_.resize(at(first.who.size()));
        const std::vector<group_message>& of_first = first.how.messages;
        const bool is_one_step = !of_first.empty() && of_first.front().step == of_first.back().step;
        const bool laps = phase_.what.how == mode::scatter && !on_ring() && first.around;
        while (!open.empty()) {
            const int now = std::ranges::min(open, {}, &cursor::step).step();
            step s{.times = std::numeric_limits<int>::max(), .level = first_level()};
            for (const cursor& c : open) s.times = std::min(s.times, c.step() == now ? c.left() : c.step() - now);
            std::optional<int> of_all;  // start-ups of all steps together
            for (const cursor& c : open)
                if (c.step() == now) add_step(c, s), of_all = c.of->how.startups;
            const double busiest = end_step(s.times);
            const double startups = s.latency * of_all.value_or(s.times);
            if (laps && startups_ == 0) add_lap(domain, s);
            end_positions(startups, busiest * s.times);
            if (laps) startups_ = s.latency;
            else startups_ += startups;
            wire_ += busiest * s.times;
            header_time_ += most_headers_ * s.times;
            if (is_one_step) s.at_once = 1, s.together = s.largest;
            add_to_path(s);
            for (cursor& c : open)
                if (c.step() == now) c.pass(s.times);
            std::erase_if(open, [](const cursor& c) { return !c.is_open(); });
        }
        if (on_ring() && phase_.what.levels.size() == 1) add_in_turn(domain);
    }

    // Adds all messages of groups that are read position by position. If all positions do the same, adds the messages
    // of positions with samples.
    void add_step(const cursor& c, step& s) {
        const moving_group& g = *c.of;
        const std::span<const group_message> messages = c.now();
        const std::size_t first = busy_.size();
        const int size = g.who.size();
        for (const group_message& m : messages) {
            if (!g.how.circulant) add_message(g, m.from, m.to, m.part, s, {});
            for (std::size_t i = 0; i < sampled_.size() && g.how.circulant; ++i) {
                const int position = sampled_[i];
                add_message(g, position, wrap(position + m.to, size), m.part, s, {true, false});
                add_message(g, wrap(position - m.to, size), position, m.part, s, {false, true});
            }
        }
        for (std::size_t i = first; i < busy_.size(); ++i)
            for (std::vector<end_use>* ends : {&sends_, &receives_})
                if (const end_use of = std::exchange((*ends)[at(busy_[i])], {}); of.part > s.together)
                    s.at_once = of.messages, s.together = of.part;
        if (!g.how.circulant) return;
        load_blocks(g, messages);
        s.at_once = 1, s.together = s.largest;
    }

    // Adds the load of links above positions with samples, if all positions do the same. If each of m consecutive
    // positions of n sends a message `to` positions ahead, m - max(0, m - to) - max(0, m + to - n) messages leave the
    // block.
    void load_blocks(const moving_group& g, std::span<const group_message> messages) {
        const int n = g.who.size();
        const auto before = [&](int rank) {
            return static_cast<int>(std::ranges::lower_bound(g.who.members(), rank) - g.who.members().begin());
        };
        for (int l = 0; l < machine_.depth(); ++l)
            for (int last = -1; const int position : sampled_) {
                const int child = phase_.rows.member_of(l, g.who.rank(position));
                if (level_at(l).ring || std::exchange(last, child) == child) continue;
                const int m = before(machine_.shape.first_rank(l - 1, child + 1)) -
                              before(machine_.shape.first_rank(l - 1, child));
                double leaving = 0, headers = 0;
                for (const group_message& each : messages) {
                    const int leave = m - std::max(0, m - each.to) - std::max(0, m + each.to - n);
                    leaving += each.part * leave;
                    headers += header_at(l) * leave;
                }
                const double alike = like(g, position, l, true);
                for (const bool inward : {false, true})
                    load_link(phase_.rows.link(l, child, inward), l, leaving * g.part * ratio_ * alike,
                              headers * alike);
            }
    }

    void add_message(const moving_group& g, int from, int to, double part, step& s, ends which) {
        const int a = g.who.rank(from), b = g.who.rank(to), level = machine_.shape.common_level(a, b);
        const double sent = part * g.part * ratio_;
        s.latency = std::max(s.latency, rates_on(level_at(level)).step);
        if (sent > s.largest || (sent == s.largest && level > s.level)) s.largest = sent, s.level = level;
        if (!g.how.circulant) {
            for (const int position : {from, to})
                if (sends_[at(position)].messages + receives_[at(position)].messages == 0) busy_.push_back(position);
            for (end_use* of : {&sends_[at(from)], &receives_[at(to)]}) ++of->messages, of->part += sent;
        }
        if (which.from) add_end(a, true, sent, level, s.times);
        if (which.to) add_end(b, false, sent, level, s.times);
        load_links(g, from, to, level, sent, which);
    }

    // Adds the messages that a rank sends or receives, if the rank is a sample.
    void add_end(int rank, bool sends, double part, int level, int times) {
        const int sample = phase_.ranks.of(rank);
        if (sample == samples::none) return;
        made_.in_memory &= through_memory(machine_, level);
        if (between_nodes(level_at(level).medium)) {
            made_.network_part = std::max(made_.network_part, part);
            if (sends) made_.sent_at_once = std::max(made_.sent_at_once, ++sent_now_[at(sample)]);
        }
        processor_load& load = loads_[at(sample)];
        add(sends ? load.sent : load.received, messages(part, level, times));
        memory_[at(sample)] += part * times * copy_time(level);
    }

    // Adds the load of links. @param top level at which the ends meet
    void load_links(const moving_group& g, int from, int to, int top, double part, ends which) {
        if (g.how.circulant && has_levels_alone_) return;  // load_blocks
        int hops = 0, first_hop = 0;
        phase_.rows.for_each_link(g.who.rank(from), g.who.rank(to), top, [&](int link, int row, bool at_end) {
            if (at_end ? !which.to : !which.from) return;
            const bool ring = phase_.rows.is_level(row) && level_at(row).ring;
            if (g.how.circulant && phase_.rows.is_level(row) && !ring) return;
            // If few positions represent all, each one's link carries the messages that all forward on the ring.
            if (!which.to && ring) link = hops++ == 0 ? first_hop = link : first_hop;
            const double alike = like(g, at_end ? to : from, row, which.from && which.to);
            load_link(link, row, part * alike, header_at(top) * alike);
        });
    }
    // Returns the number of members of similar groups, using the same link of a row, that a member represents. Groups
    // are weighted by the link's share of the ranks in the domain's child. If few positions represent all, a position
    // also represents others that use the link.
    double like(const moving_group& g, int position, int row, bool alone) const {
        if (phase_.all_groups) return 1;
        const auto next = std::ranges::lower_bound(g.sampled, position, {}, &moving_group::member::position);
        const moving_group::member& m =
            next == g.sampled.end() || next->position != position ? g.representative : *next;
        const double ratio = phase_.ranks.share_of_link(at(m.sample), row) / m.ranks_like;
        return std::max(std::min(1.0, g.like), g.like * (alone ? std::min(1.0, ratio) : ratio));
    }
    void load_link(int link, int row, double part, double headers) {
        if (part == 0) return;
        if (now_[at(link)] == 0) touched_.push_back({link, row});
        now_[at(link)] += part;
        headers_[at(link)] += headers;
    }
    double header_at(int l) const { return header_of(level_at(l).medium); }

    // Returns the time of a byte on a link [s].
    double time_on(int link, int row) const {
        return slowness_[at(phase_.rows.level(row))] / phase_.rows.rate_of(link, row);
    }

    // Ends a step. Returns the time on its busiest link [s/B], and sets the longest time of headers.
    double end_step(int times) {
        double busiest = most_headers_ = 0;
        row_times_.assign(at(phase_.rows.count()), 0);
        for (const auto& [link, row] : touched_) {
            const double of_byte = time_on(link, row), time = now_[at(link)] * of_byte;
            busiest = std::max(busiest, time);
            row_times_[at(row)] = std::max(row_times_[at(row)], time);
            if (all_[at(link)] == 0) touched_ever_.push_back(link);
            all_[at(link)] += now_[at(link)] * times;
            most_headers_ = std::max(most_headers_, std::exchange(headers_[at(link)], 0) * of_byte);
            now_[at(link)] = 0;
        }
        touched_.clear();
        std::ranges::fill(sent_now_, 0);
        return busiest;
    }

    // Adds a step to the times that its positions occupy their lanes.
    void end_positions(double startups, double wire) {
        if (!held_wire_.empty()) keep_different(busy_);
        for (const int position : busy_) {
            if (at(position) >= held_wire_.size()) continue;  // the group is larger than the first
            held_startups_[at(position)] += startups;
            held_wire_[at(position)] += wire;
        }
        busy_.clear();
    }

    void add_to_path(const step& s) {
        add(path_, messages(s.together / s.at_once, s.level, static_cast<double>(s.times) * s.at_once));
        path_parts_ += s.together * s.times;
        path_memory_ += s.together * s.times * handling_time(s.level);
        made_.largest_part = std::max(made_.largest_part, s.largest);
    }
    // Returns the time for which processors handle a message on its way: they reduce it, and copy it at both ends
    // [s/B]. In mode replicate, a rank may take part only at the end.
    double handling_time(int l) const {
        return (adds_ && phase_.what.how != mode::replicate ? reduce_time(machine_) : 0) + 2 * copy_time(l);
    }

    // ---- rings ----

    // Returns, by level, the number of neighbours on the ring that meet there, with the last and the first if `closed`.
    // A part takes all hops of a closed ring but one of the shortest.
    std::vector<int> hops_of(std::span<const int> members, bool closed) const {
        std::vector<int> hops(at(machine_.depth()));
        for (std::size_t i = 0; i + (closed ? 0 : 1) < members.size(); ++i)
            ++hops[at(machine_.shape.common_level(members[i], members[(i + 1) % members.size()]))];
        return hops;
    }

    void add_lap(const moving_domain& domain, const step& s) {
        const moving_group& g = domain.front();
        const std::vector<int>& members = g.who.members();
        if (members.size() <= longest_ring_) return;
        longest_ring_ = members.size();
        std::vector<int> hops = hops_of(members, true);
        --*std::ranges::find_if(hops, [](int count) { return count > 0; });
        std::vector<std::vector<int>> inside;  // hops in the longest domain of each level
        for (int l = first_level(); l < phase_.what.levels.back(); ++l) inside.push_back(longest_inside(members, l));
        made_.lap.clear();
        double wire = 0;
        for (int l = 0; l < machine_.depth(); ++l) {
            wire = std::max(wire, row_times_[at(l)]);
            if (phase_.rows.passes_nic(l))
                for (int row = phase_.rows.nic_row(); row < phase_.rows.count(); ++row)
                    wire = std::max(wire, row_times_[at(row)]);
            if (hops[at(l)] == 0) continue;
            ring_hop hop{
                .latency = rates_on(level_at(l)).step + header_at(l) * slowness_[at(l)] / level_at(l).bandwidth,
                .wire = wire,
                .message = messages(s.largest, l, 1),
                .memory = s.largest * handling_time(l),
                .count = hops[at(l)],
                .within = {}};
            for (const std::vector<int>& of : inside) hop.within.push_back(of[at(l)]);
            made_.lap.push_back(std::move(hop));
        }
    }
    std::vector<int> longest_inside(const std::vector<int>& members, int level) const {
        std::span<const int> longest;
        for (std::size_t begin = 0, end = 0; begin < members.size(); begin = end) {
            while (end < members.size() &&
                   machine_.shape.domain_of(level, members[end]) == machine_.shape.domain_of(level, members[begin]))
                ++end;
            if (end - begin > longest.size()) longest = std::span(members).subspan(begin, end - begin);
        }
        return hops_of(longest, false);
    }

    // Adds the time in which a rank sends to its neighbours on a ring of a torus as if all shared one link. Segments
    // use a lane's request slots in program order, so a long message delays the next, though the next uses another
    // link. Only the last segments of one message and the first of the next share the slots.
    void add_in_turn(const moving_domain& domain) {
        if (on_gpus(machine_)) return;  // messages are not cut
        const moving_group& g = domain.front();
        const int row = first_level(), link = phase_.rows.link(row, phase_.rows.member_of(row, g.who.rank(0)), false);
        double parts = 0, messages = 0, vectors = 0, own = 0;
        for (const group_message& m : g.how.messages)
            if (m.from == 0) parts += m.part * m.times, messages += m.times;
        for (const moving_group& each : domain) {
            vectors += each.part * each.like;
            if (each.who.contains(g.who.rank(0))) own += each.part;
        }
        made_.in_turn = std::max(made_.in_turn, parts * vectors / phase_.rows.rate(link));
        made_.overlap =
            std::max(made_.overlap, (messages - 1) * slots_each_way * static_cast<double>(machine_.processors.segment) *
                                        vectors / own / phase_.rows.rate(link));
    }

    // ---- a provider's collectives ----

    void run_by_provider(const moving_domain& domain) {
        const int outermost = outermost_joining();
        for (const moving_group& g : domain) {
            const action what = *g.how.provider_action;
            const stage_work work(what, std::max(0, g.who.root()), sharing::replicated);
            const provider_stage all =
                on_gpus(machine_) ? nccl_stage(what, g.who) : memory_stage(work, g.who, phase_.in_scratch);
            startups_ = on_gpus(machine_) ? nccl_startup(outermost) : all.flag_waits * flag_time(machine_, outermost);
            load_all(g, all);
            for (const auto& [position, sample, ranks_like] : g.sampled) {
                memory_[at(sample)] += accesses(all, at(position)) * access_time(machine_) * g.part;
                const double handled = all.handled[at(position)] * g.part;
                made_.largest_part = std::max(made_.largest_part, handled);
                if (between_nodes(level_at(outermost).medium))
                    made_.network_part = std::max(made_.network_part, handled);
            }
        }
        wire_ = end_step(1);
    }

    // Returns the reads and writes of a member's processor, in parts of the group's data. The caller's vector must
    // first be copied to memory that peers can read. The copy leaves the data in the cache, so reading all of it again
    // is free.
    double accesses(const provider_stage& all, std::size_t member) const {
        const bool copies = phase_.from_caller && !phase_.in_scratch && !phase_.down && all.exposed[member] > 0;
        if (!copies) return all.accesses[member];
        return 2 * all.exposed[member] + all.accesses[member] - (all.read_again[member] == 1 ? 1 : 0);
    }

    double nccl_startup(int outermost) const {
        double longest = 0;
        for (int l = first_level(); l <= outermost; ++l) longest = std::max(longest, nccl_rates(level_at(l)).stage);
        return longest;
    }

    // Messages of NCCL from nodes use any free NIC if NCCL has several ranks of a node.
    void load_all(const moving_group& g, const provider_stage& all) {
        const bool in_nodes = first_level() < machine_.node_levels();
        std::vector<bool> carried(all.shared ? now_.size() : 0);
        for (const group_message& m : all.moves)
            phase_.rows.for_each_link(g.who.rank(m.from), g.who.rank(m.to), [&](int link, int row, bool at_end) {
                if ((!phase_.rows.is_level(row) && in_nodes) || (all.shared && carried[at(link)])) return;
                if (all.shared) carried[at(link)] = true;
                load_link(link, row, m.part * g.part * like(g, at_end ? m.to : m.from, row, true), 0);
            });
    }

    // ---- processors, and the end of a domain ----

    // Adds the reductions of samples. With a shorter wire type, each element sent or received is also converted, which
    // costs about half of a reduction.
    void add_work(const moving_domain& domain) {
        for (const moving_group& g : domain)
            for (const auto& [position, sample, ranks_like] : g.sampled) {
                double& memory = memory_[at(sample)];
                if (!g.how.provider_action) memory += g.how.reduced_by(position) * g.part * reduce_time(machine_);
                if (phase_.wire == wire_type::exact) continue;
                const double own = 1.0 / g.who.size(), others = 1 - own;
                memory += (phase_.down ? others + 2 * own : 2 * others) * g.part * reduce_time(machine_) / 2;
            }
    }

    void end_domain() {
        const auto most = [](double of_all, const std::vector<double>& of_position) {
            return of_position.empty() ? of_all : std::ranges::max(of_position);
        };
        made_.startups = std::max(made_.startups, startups_);
        made_.wire = std::max(made_.wire, wire_);
        made_.headers = std::max(made_.headers, header_time_);
        made_.held_startups = std::max(made_.held_startups, most(startups_, held_startups_));
        made_.held_wire = std::max(made_.held_wire, most(wire_, held_wire_));
        if (path_parts_ <= longest_path_) return;
        longest_path_ = path_parts_;
        made_.path = std::move(path_);
        made_.path_memory = path_memory_;
    }

    const stage_phase& phase_;
    const hierarchy& machine_;
    double ratio_;                              // wire bytes per byte of data
    std::vector<double> slowness_;              // by level: rate in the cluster file / rate for this stage's data
    bool has_levels_alone_;                     // the machine has neither NICs nor rings
    std::vector<double>&now_, &all_;            // vectors through each link, in the step and in the phase
    std::vector<double>& headers_;              // in the step, through each link [B]
    std::vector<std::pair<int, int>> touched_;  // links that the step uses, and their rows
    std::vector<int> touched_ever_;             // links that any step uses
    std::vector<double> row_times_;             // of the busiest link of each row in the step [s/B]
    std::vector<processor_load> loads_;         // by sample
    std::vector<double> memory_;                // memory times of loads_, in double precision [s/B]
    phase_load made_;
    double longest_path_ = 0;
    std::size_t longest_ring_ = 1;  // positions of the ring of the lap
    // Scratch of the current domain.
    bool adds_ = false;
    double startups_ = 0, wire_ = 0, header_time_ = 0, path_parts_ = 0, path_memory_ = 0;
    std::vector<message_load> path_;
    std::vector<int> sampled_;                       // positions that have samples, or all positions
    std::vector<double> held_startups_, held_wire_;  // by position; empty: all take part in every step
    // Scratch of the current step.
    double most_headers_ = 0;                // on a link [s]
    std::vector<end_use> sends_, receives_;  // by position
    std::vector<int> busy_;
    std::vector<int> sent_now_;  // messages between nodes, by sample
};

}  // namespace

phase_load load_of(const stage_phase& phase, std::span<const moving_domain> domains, link_sums& sums) {
    phase_counter counter(phase, sums);
    for (const moving_domain& domain : domains) counter.count(domain);
    return counter.finish();
}

}  // namespace terrace::detail
