// Messages of patterns whose positions differ, one by one.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "plan/routes.hpp"
#include "planner/traffic.hpp"

namespace terrace::detail {

namespace {

// The domains of one height that the positions of a group are in, counted from the first one's.
struct domains_at {
    int height = 0;
    int first = 0;                             // counted over the machine
    std::vector<int> of_position = {};         // ascending
    std::vector<link_use> now = {}, all = {};  // through the link of each, or over its hop to the next on its ring
};

class message_counter {
public:
    message_counter(load_tally& tally, const pattern& p)
        : tally_(tally), setting_(tally.setting()), pattern_(p), size_(tally.size()), now_(at(size_)), all_(at(size_)) {
        has_steps_ = p.exchanges.size() > 1;
        sends_.resize(at(size_));
        receives_.resize(at(size_));
        sampled_.resize(at(size_));
        for (const std::size_t i : tally.samples()) {
            const int position = setting_.place_of(i).position;
            sampled_[at(position)] = true;
            samples_.emplace(position, i);
        }
        find_inside();
        find_domains();
        find_nics();
        tally.now().held_startups.resize(at(size_));
        tally.now().held_wire.resize(at(size_));
    }

    void run() {
        for (const exchange& e : pattern_.exchanges) count(e);
        for (const std::size_t i : tally_.samples()) pass_to(i);
    }

private:
    // Finds the time that a vector takes inside each position: the longest there is, where links do not differ.
    void find_inside() {
        inside_.assign(at(size_), tally_.inside());
        const auto differ = [](const level& l) { return !l.rates.empty(); };
        const std::vector<level>& levels = setting_.machine.levels;
        if (std::none_of(levels.begin(), levels.end(), differ)) return;
        for (const auto& [position, sample] : samples_) inside_[at(position)] = 0;
        for (const auto& [position, sample] : samples_)
            inside_[at(position)] = std::max(inside_[at(position)], tally_.inside(sample));
    }

    void find_domains() {
        const layout& where = setting_.where;
        const int first = tally_.any_place().first;
        for (int h = where.from; h < where.to; ++h) {
            domains_at& d = domains_.emplace_back(domains_at{.height = h});
            for (int i = 0; i < size_; ++i) {
                const int rank = setting_.samples.first_rank(where, where.from, first + i);
                const int domain = h == where.from ? first + i : setting_.samples.domain_at(where, h, rank);
                if (i == 0) d.first = domain;
                d.of_position.push_back(domain - d.first);
            }
            d.now.resize(at(d.of_position.back()) + 1);
            d.all.resize(d.now.size());
        }
    }

    // By which NICs the positions leave their nodes. Where they are nodes, that is inside them.
    void find_nics() {
        const layout& where = setting_.where;
        if (!setting_.samples.uses_nics(where)) return;
        among_nodes_ = setting_.leaves_nodes(where.from);
        if (among_nodes_) return;
        for (int i = 0; i < size_; ++i) nics_.push_back(setting_.samples.nics_of(where, tally_.any_place().first + i));
    }

    void count(const exchange& e) {
        double largest = 0, latency = 0;
        int largest_level = setting_.level_at(setting_.where.from);
        int at_once = 1;
        for (const exchange::message& m : e.messages) {
            const int level = send(m);
            at_once = std::max({at_once, ++sends_[at(m.from)], ++receives_[at(m.to)]});
            latency = std::max(latency, setting_.rates_on(setting_.machine.levels[at(level)]).step);
            add_ends(m, level, e.times);
            if (m.part > largest || (m.part == largest && level > largest_level))
                largest = m.part, largest_level = level;
        }
        const double busiest = std::max({busiest_link(e.times), busiest_inside(e), busiest_nic(e.times)});
        hold_lanes(e, latency * e.startups, busiest * e.times);
        for (const exchange::message& m : e.messages) sends_[at(m.from)] = receives_[at(m.to)] = 0;
        tally_.add_steps(e, busiest, {largest, largest_level, has_steps_ ? at_once : 1}, latency);
    }

    // Adds a message to all links that it crosses. Returns the level at which its ends meet.
    int send(const exchange::message& m) {
        now_[at(m.from)].out += m.part;
        now_[at(m.to)].in += m.part;
        std::size_t h = 0;
        for (; h < domains_.size(); ++h) {
            domains_at& d = domains_[h];
            const int from = d.of_position[at(m.from)], to = d.of_position[at(m.to)];
            if (from == to) break;
            if (setting_.on_ring(d.height)) {
                send_around(h, from, to, m.part);
                continue;
            }
            touched_.emplace_back(h, from);
            touched_.emplace_back(h, to);
            d.now[at(from)].out += m.part;
            d.now[at(to)].in += m.part;
        }
        const int level = setting_.level_at(setting_.where.from + static_cast<int>(h) - 1);
        if (!nics_.empty() && setting_.samples.rows().passes_nic(level)) send_by_nics(m);
        return level;
    }

    // Ranks of the two positions that have the same place exchange what they hold.
    void send_by_nics(const exchange::message& m) {
        const nic_set& all = setting_.machine.nics;
        const auto &from = nics_[at(m.from)], &to = nics_[at(m.to)];
        for (const auto& [nic, vectors] : from) nic_now_[nic].out += m.part * vectors;
        for (const auto& [nic, vectors] : to) nic_now_[nic].in += m.part * vectors;
        if (all.spine == 0) return;
        for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
            const int out = all.rail_of(from[i].first), in = all.rail_of(to[i].first);
            if (out == in) continue;
            spine_now_[out].out += m.part * from[i].second;
            spine_now_[in].in += m.part * to[i].second;
        }
    }

    // Of the step, which it ends [s/B].
    double busiest_nic(int times) {
        double busiest = 0;
        const link_rows& rows = setting_.samples.rows();
        const auto end_step = [&](int row, std::map<int, link_use>& now, std::map<int, link_use>& all) {
            for (const auto& [link, use] : now) {
                busiest = std::max(busiest, use.busier() * setting_.network_slowness() / rows.rate(row, link));
                all[link] += use * times;
            }
            now.clear();
        };
        end_step(rows.nic_row(), nic_now_, nic_all_);
        end_step(rows.spine_row(), spine_now_, spine_all_);
        return busiest;
    }

    // Over all hops between two nodes of one dimension of a torus, the shorter way around.
    void send_around(std::size_t h, int from, int to, double part) {
        domains_at& d = domains_[h];
        const int n = setting_.machine.shape.children(setting_.level_at(d.height), 0);
        const int row = from - from % n, hops = ring_hops(from % n, to % n, n);
        for (int k = 0; k < std::abs(hops); ++k) {
            const int node = row + wrap(from % n + (hops > 0 ? k : -k), n);
            touched_.emplace_back(h, node);
            (hops > 0 ? d.now[at(node)].out : d.now[at(node)].in) += part / setting_.ring_share(d.height);
        }
    }

    void add_ends(const exchange::message& m, int level, int times) {
        for (const bool sends : {true, false}) {
            const int position = sends ? m.from : m.to;
            if (!sampled_[at(position)]) continue;
            const auto [begin, end] = samples_.equal_range(position);
            for (auto s = begin; s != end; ++s) tally_.add_message(s->second, sends, m.part, level, times);
        }
    }

    // Returns the time on the busiest link of the step, which it ends [s/B].
    double busiest_link(int times) {
        double busiest = 0;
        const double held = tally_.any_place().below.back();
        for (const auto& [h, domain] : touched_) {
            domains_at& d = domains_[h];
            link_use& use = d.now[at(domain)];
            const int l = setting_.level_at(d.height);
            if (setting_.where.tiers[at(d.height)].linked())
                busiest = std::max(busiest, use.busier() * held * setting_.slowness(setting_.machine.levels[at(l)]) /
                                                setting_.machine.rate(l, d.first + domain));
            d.all[at(domain)] += use * times;
            use = {};
        }
        touched_.clear();
        return busiest;
    }

    double busiest_inside(const exchange& e) const {
        double busiest = 0;
        for (const exchange::message& m : e.messages)
            for (const int position : {m.from, m.to})
                busiest = std::max(busiest, now_[at(position)].busier() * inside_[at(position)]);
        return busiest;
    }

    // Occupies the lanes of the positions that take part in a step, which it ends.
    void hold_lanes(const exchange& e, double startups, double wire) {
        for (const exchange::message& m : e.messages)
            for (const int position : {m.from, m.to}) {
                const link_use use = std::exchange(now_[at(position)], {});
                if (use == link_use{}) continue;  // counted already
                all_[at(position)] += use * e.times;
                tally_.now().held_startups[at(position)] += startups;
                tally_.now().held_wire[at(position)] += wire;
            }
    }

    void pass_to(std::size_t i) {
        const sample_place& q = setting_.place_of(i);
        const int from = setting_.where.from;
        for (int h = 0; h < from; ++h)
            if (!setting_.on_ring(h)) tally_.pass(i, h, all_[at(q.position)] * q.below[at(h)]);
        for (const domains_at& d : domains_)
            tally_.pass(i, d.height, d.all[at(d.of_position[at(q.position)])] * q.below.back());
        pass_nics(i);
    }

    void pass_nics(std::size_t i) {
        const sample_place& q = setting_.place_of(i);
        if (q.nic.empty()) return;
        const link_rows& rows = setting_.samples.rows();
        const int rank = setting_.samples.ranks()[i];
        if (among_nodes_) tally_.pass_row(i, rows.nic_row(), all_[at(q.position)] * q.nic.front().vectors);
        else tally_.pass_row(i, rows.nic_row(), nic_all_[rows.member_of(rows.nic_row(), rank)]);
        if (setting_.machine.nics.spine > 0)
            tally_.pass_row(i, rows.spine_row(), spine_all_[rows.member_of(rows.spine_row(), rank)]);
    }

    load_tally& tally_;
    const phase_setting& setting_;
    const pattern& pattern_;
    int size_;
    bool has_steps_ = false;                                 // that wait for one another
    std::vector<int> sends_, receives_;                      // messages of each position in the step
    std::vector<bool> sampled_;                              // by position
    std::multimap<int, std::size_t> samples_;                // by position
    std::vector<double> inside_;                             // by position [s/B]
    std::vector<domains_at> domains_;                        // by height, from the positions' up
    bool among_nodes_ = false;                               // positions are nodes, or hold several
    std::vector<std::vector<std::pair<int, double>>> nics_;  // by position: NICs, and vectors sent by each
    std::map<int, link_use> nic_now_, nic_all_;              // by NIC
    std::map<int, link_use> spine_now_, spine_all_;          // by rail
    std::vector<link_use> now_, all_;  // what each position sends and receives, in the step and altogether
    std::vector<std::pair<std::size_t, int>> touched_;  // links that the step uses: index into domains_, domain
};

}  // namespace

void add_messages(load_tally& tally, const pattern& p) { message_counter(tally, p).run(); }

}  // namespace terrace::detail
