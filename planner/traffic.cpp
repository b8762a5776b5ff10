#include "planner/traffic.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "planner/devices.hpp"
#include "planner/nccl_stage.hpp"
#include "planner/node_memory.hpp"
#include "planner/ring_lap.hpp"
#include "planner/torus.hpp"

namespace terrace::detail {

namespace {

void add_reductions(load_tally& tally, const pattern& p) {
    if (p.reduced.empty()) return;
    const phase_setting& s = tally.setting();
    for (const std::size_t i : tally.samples()) {
        const sample_place& q = s.place_of(i);
        tally.add_processor_time(i, p.reduced[at(q.position)] * q.share * reduce_time(s.machine));
    }
}

void add_domain(load_tally& tally, const pattern& p) {
    const phase_setting& s = tally.setting();
    if (p.by_provider && on_gpus(s.machine)) add_nccl_stage(tally);
    else if (p.by_provider) add_memory_stage(tally);
    else if (p.circulant) add_circulant(tally, p);
    else add_messages(tally, p);
    if (p.rings > 1) tally.run_side_by_side();
    const bool on_ring = s.on_ring(s.where.from);
    if (s.where.how == mode::scatter && (is_ring(p) || p.rings > 0) && !on_ring) add_lap(tally, std::max(1, p.rings));
    if (on_ring && s.where.to == s.where.from + 1) add_in_turn(tally, p);
    add_reductions(tally, p);
}

// The node of each position in a sample's domain, counted from the first one's.
std::vector<int> nodes_of(const phase_setting& s, std::size_t sample) {
    const sample_place& q = s.place_of(sample);
    std::vector<int> nodes;
    for (int i = 0; i < q.positions; ++i) {
        const int rank = s.samples.first_rank(s.where, s.where.from, q.first + i);
        nodes.push_back(s.machine.shape.domain_of(s.machine.node_levels() - 1, rank));
    }
    const int first = nodes.front();
    for (int& node : nodes) node -= first;
    return nodes;
}

// Positions of a circulant pattern under one domain: m consecutive ones of a group.
struct part_of_group {
    int positions = 0, size = 0;

    // Of messages that each position sends `to` positions further on, those that leave the part.
    int leaving(int to) const { return positions - std::max(0, positions - to) - std::max(0, positions + to - size); }
};

class circulant_counter {
public:
    circulant_counter(load_tally& tally, const pattern& p)
        : tally_(tally), setting_(tally.setting()), pattern_(p), size_(static_cast<int>(p.reduced.size())) {}

    void run() {
        for (const exchange& e : pattern_.exchanges) count(e);
    }

private:
    void count(const exchange& e) {
        double sent = 0;  // by each position
        for (const exchange::message& m : e.messages) sent += m.part;
        busiest_ = sent * tally_.inside();
        largest_ = latency_ = 0;
        largest_level_ = setting_.level_at(setting_.where.from);
        for (const std::size_t i : tally_.samples()) {
            pass_above(i, e);
            pass_inside(i, e, sent);
            pass_nic(i, e);
            for (const exchange::message& m : e.messages) add_ends(i, m, e.times);
        }
        tally_.add_steps(e, busiest_, {largest_, largest_level_}, latency_);
    }

    // Links of the domains between the position and the group.
    void pass_above(std::size_t i, const exchange& e) {
        const sample_place& q = setting_.place_of(i);
        const double held = q.below.back();
        for (std::size_t b = 0; b < q.blocks.size(); ++b) {
            const int h = setting_.where.from + 1 + static_cast<int>(b);
            double leaving = 0;
            for (const exchange::message& m : e.messages)
                leaving += m.part * part_of_group{q.blocks[b].positions, size_}.leaving(m.to);
            if (setting_.on_ring(h)) leaving /= setting_.ring_share(h);
            tally_.pass(i, h, {leaving * held * e.times, leaving * held * e.times});
            if (setting_.where.tiers[at(h)].linked())
                busiest_ = std::max(busiest_, leaving * held / setting_.rate(i, h));
        }
    }

    // Links of the position and of what is inside it.
    void pass_inside(std::size_t i, const exchange& e, double sent) {
        const sample_place& q = setting_.place_of(i);
        for (int h = 0; h <= setting_.where.from; ++h) {
            const bool ring = setting_.on_ring(h);
            if (ring && h < setting_.where.from) continue;
            const double through = ring ? around_ring(setting_, e, size_) / setting_.ring_share(h) : sent;
            tally_.pass(i, h, {through * q.below[at(h)] * e.times, through * q.below[at(h)] * e.times});
            if (ring) busiest_ = std::max(busiest_, through * q.below.back() / setting_.rate(i, h));
        }
    }

    // The NIC by which messages leave the sample's node, and the spine between rails.
    void pass_nic(std::size_t i, const exchange& e) {
        const sample_place& q = setting_.place_of(i);
        if (q.nic.empty()) return;
        const sample_place::block node = positions_of_node(q);
        link_use nic, spine;
        for (const sample_place::on_nic& on : q.nic)
            for (const exchange::message& m : e.messages)
                for (const bool sends : {true, false}) {
                    const int peer = wrap(on.position + (sends ? m.to : -m.to), size_);
                    if (peer >= node.first && peer < node.first + node.positions) continue;
                    (sends ? nic.out : nic.in) += m.part * on.vectors;
                    if (crosses_spine(q, on.position, peer)) (sends ? spine.out : spine.in) += m.part * on.vectors;
                }
        const link_rows& rows = setting_.samples.rows();
        tally_.pass_row(i, rows.nic_row(), nic * e.times);
        busiest_ = std::max(busiest_, nic.busier() / setting_.nic_rate(i));
        if (setting_.machine.nics.spine == 0) return;
        // All nodes on the rail do the same.
        spine = spine * setting_.machine.nics.nodes();
        tally_.pass_row(i, rows.spine_row(), spine * e.times);
        busiest_ = std::max(busiest_, spine.busier() * setting_.network_slowness() / setting_.machine.nics.spine);
    }

    // Those under the node that a place is in: where positions are nodes, or hold several, itself.
    sample_place::block positions_of_node(const sample_place& q) const {
        int h = setting_.where.from;
        while (!setting_.leaves_nodes(h)) ++h;
        return h == setting_.where.from ? sample_place::block{q.position, 1}
                                        : q.blocks[at(h - setting_.where.from - 1)];
    }

    bool crosses_spine(const sample_place& q, int a, int b) const {
        const auto first_rank = [&](int position) {
            return setting_.samples.first_rank(setting_.where, setting_.where.from, q.first + position);
        };
        return setting_.machine.nics.spine > 0 && setting_.samples.rows().passes_spine(first_rank(a), first_rank(b));
    }

    void add_ends(std::size_t i, const exchange::message& m, int times) {
        const sample_place& q = setting_.place_of(i);
        const int there = setting_.level_between(q, q.position, wrap(q.position + m.to, size_));
        const int back = setting_.level_between(q, wrap(q.position - m.to, size_), q.position);
        tally_.add_message(i, true, m.part, there, times);
        tally_.add_message(i, false, m.part, back, times);
        for (const int level : {there, back})
            latency_ = std::max(latency_, setting_.rates_on(setting_.machine.levels[at(level)]).step);
        if (m.part > largest_ || (m.part == largest_ && there > largest_level_))
            largest_ = m.part, largest_level_ = there;
    }

    load_tally& tally_;
    const phase_setting& setting_;
    const pattern& pattern_;
    int size_;
    // Of the exchange at hand.
    double busiest_ = 0;  // link, in each step [s/B]
    double largest_ = 0;  // message
    int largest_level_ = 0;
    double latency_ = 0;
};

const pattern& pattern_of(const phase_setting& s, pattern_book& patterns, std::size_t sample, int size,
                          root_part at_root) {
    if (s.exchanges) return patterns.of_exchange(s.by, size, s.blocks);
    if (s.by.graph == message_graph::node_rings && !only_at_root(at_root))
        return patterns.of_rings(s.where.how, s.down, nodes_of(s, sample));
    return patterns.of(s.by, {s.where.how, s.down, at_root}, size, s.blocks);
}

// Links carry the shorter form; processors convert each element that is sent or received, which takes about half the
// time of adding it up.
void add_rounded_domain(load_tally& tally, pattern p) {
    const phase_setting& s = tally.setting();
    for (const std::size_t i : tally.samples()) {
        const sample_place& q = s.place_of(i);
        const double others = (q.positions - 1.0) / q.positions, own = 1.0 / q.positions;
        const double converted = s.down ? others + 2 * own : 2 * others;
        tally.add_processor_time(i, converted * q.share * reduce_time(s.machine) / 2);
    }
    const double ratio = wire_ratio(s.wire, sizeof(float));
    for (exchange& e : p.exchanges)
        for (exchange::message& m : e.messages) m.part *= ratio;
    add_domain(tally, p);
}

}  // namespace

phase_load load_of(const phase_setting& setting, pattern_book& patterns) {
    std::map<int, std::vector<std::size_t>> domains;
    for (std::size_t i = 0; i < setting.where.places.size(); ++i) domains[setting.where.places[i].domain].push_back(i);
    load_tally tally(setting);
    for (const auto& [domain, samples] : domains) {
        const int size = setting.place_of(samples.front()).positions;
        const bool has_root = domain == 0 || setting.roots_everywhere;
        if (size == 1 || (only_at_root(setting.at_root) && !has_root)) continue;
        const root_part at_root = has_root ? setting.at_root : root_part::none;
        tally.begin(samples);
        const pattern& p = pattern_of(setting, patterns, samples.front(), size, at_root);
        if (setting.wire == wire_type::exact) add_domain(tally, p);
        else add_rounded_domain(tally, p);
        tally.end();
    }
    return tally.finish();
}

void add_circulant(load_tally& tally, const pattern& p) { circulant_counter(tally, p).run(); }

}  // namespace terrace::detail
