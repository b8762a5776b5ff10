#include "planner/load_tally.hpp"

#include <algorithm>
#include <utility>

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail {

namespace {

int hops_in(const std::vector<ring_hop>& lap) {
    int hops = 0;
    for (const ring_hop& h : lap) hops += h.count;
    return hops;
}

double most(double of_all, const std::vector<double>& of_position) {
    return of_position.empty() ? of_all : *std::max_element(of_position.begin(), of_position.end());
}

}  // namespace

load_tally::load_tally(const phase_setting& setting)
    : setting_(setting), ranks_(setting.where.places.size()), inside_of_(setting.where.places.size()) {
    for (const level& l : setting.machine.levels) made_.slowness.push_back(setting.slowness(l));
    made_.links.resize(ranks_.size() * at(setting.samples.rows().count()) * 2);
}

void load_tally::begin(std::span<const std::size_t> samples) {
    here_ = samples;
    now_ = {};
    inside_ = largest_piece_ = 0;
    for (const std::size_t i : samples) {
        largest_piece_ = std::max(largest_piece_, setting_.place_of(i).largest);
        inside_of_[i] = time_inside(i);
        inside_ = std::max(inside_, inside_of_[i]);
    }
}

// Links of a ring are used by stages over that dimension alone.
double load_tally::time_inside(std::size_t sample) const {
    const sample_place& p = setting_.place_of(sample);
    double time = 0;
    for (int h = 0; h <= setting_.where.from; ++h)
        if (setting_.where.tiers[at(h)].linked() && !setting_.on_ring(h))
            time = std::max(time, p.below[at(h)] / setting_.rate(sample, h));
    return std::max(time, time_on_nic(sample));
}

// Where positions are nodes, or hold several, all that they send leaves by NICs.
double load_tally::time_on_nic(std::size_t sample) const {
    const sample_place& p = setting_.place_of(sample);
    if (p.nic.empty() || !setting_.leaves_nodes(setting_.where.from)) return 0;
    return p.nic.front().vectors / setting_.nic_rate(sample);
}

void load_tally::add_steps(const exchange& steps, double busiest, const step_messages& each, double latency) {
    now_.startups += latency * steps.startups;
    now_.wire += busiest * steps.times;
    const double part = each.largest * largest_piece_;
    const int messages = steps.times * each.at_once;
    count(now_.path, setting_.messages(part, each.level, messages));
    now_.path_parts += part * messages;
    now_.path_memory += part * messages * setting_.handling_time(each.level);
    note_size(part, false);
}

void load_tally::add_message(std::size_t sample, bool sends, double part, int level, int steps) {
    const sample_place& p = setting_.place_of(sample);
    made_.in_memory &= through_memory(setting_.machine, level);
    if (p.share == 0) return;
    if (between_nodes(setting_.machine.levels[at(level)].medium))
        made_.network_part = std::max(made_.network_part, part * p.largest);
    rank_load& load = ranks_[sample];
    const double pieces = setting_.in_scratch ? std::min(p.pieces, owners_of(p)) : p.pieces;
    count(sends ? load.sent : load.received, setting_.messages(part * p.share / pieces, level, steps * pieces));
    load.memory += part * p.share * steps * setting_.copy_time(level);
}

// Returns about how many blocks of what a rank holds end up with each position.
double load_tally::owners_of(const sample_place& p) const {
    return std::max(1.0, p.share * setting_.machine.ranks() / p.positions);
}

void load_tally::count(std::vector<message_load>& messages, const message_load& more) const {
    for (message_load& m : messages)
        if (m.part == more.part && m.overhead == more.overhead && m.segment == more.segment) {
            m.count += more.count;
            return;
        }
    messages.push_back(more);
}

void load_tally::pass(std::size_t sample, int height, const link_use& vectors) {
    const layout::tier& r = setting_.where.tiers[at(height)];
    if (!r.linked()) return;
    pass_row(sample, r.level, vectors);
}

void load_tally::pass_row(std::size_t sample, int row, const link_use& vectors) {
    double* link = &made_.links[(sample * at(setting_.samples.rows().count()) + at(row)) * 2];
    link[0] += vectors.out;
    link[1] += vectors.in;
}

void load_tally::note_size(double part, bool between_nodes) {
    made_.largest_part = std::max(made_.largest_part, part);
    if (between_nodes) made_.network_part = std::max(made_.network_part, part);
}

void load_tally::run_side_by_side() {
    made_.side_by_side = true;
    now_.held_startups.clear();
    now_.held_wire.clear();
}

void load_tally::end() {
    made_.startups = std::max(made_.startups, now_.startups);
    made_.wire = std::max(made_.wire, now_.wire);
    if (hops_in(now_.lap) > hops_in(made_.lap)) made_.lap = std::move(now_.lap);
    made_.held_startups = std::max(made_.held_startups, most(now_.startups, now_.held_startups));
    made_.held_wire = std::max(made_.held_wire, most(now_.wire, now_.held_wire));
    made_.in_turn = std::max(made_.in_turn, now_.in_turn);
    made_.overlap = std::max(made_.overlap, now_.overlap);
    if (now_.path_parts <= longest_path_) return;
    longest_path_ = now_.path_parts;
    made_.path = std::move(now_.path);
    made_.path_memory = now_.path_memory;
}

phase_load load_tally::finish() {
    std::vector<processor_load> loads;
    for (rank_load& load : ranks_) {
        std::sort(load.sent.begin(), load.sent.end());
        std::sort(load.received.begin(), load.received.end());
        loads.push_back({std::move(load.sent), std::move(load.received), static_cast<float>(load.memory)});
    }
    set_loads(made_, std::move(loads), setting_.samples.weights());
    return std::move(made_);
}

}  // namespace terrace::detail
