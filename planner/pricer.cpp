#include "planner/pricer.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "plan/routes.hpp"
#include "planner/available.hpp"
#include "planner/devices.hpp"
#include "planner/torus.hpp"
#include "planner/traffic.hpp"
#include "schedule/exchange.hpp"

namespace terrace::detail {

namespace {

// Returns the price of copies that ranks make by themselves, in each phase: a rank reads and writes so many vectors.
template <class Vectors>
std::shared_ptr<const stage_price> copies(const hierarchy& machine, const sampler& samples, Vectors&& vectors) {
    phase_load p;
    p.slowness.assign(at(machine.depth()), 1);
    p.links.resize(samples.ranks().size() * at(samples.rows().count()) * 2);
    std::vector<processor_load> loads;
    for (const int rank : samples.ranks())
        loads.push_back({{}, {}, static_cast<float>(vectors(rank) * access_time(machine))});
    set_loads(p, std::move(loads), samples.weights());
    return std::make_shared<const stage_price>(stage_price{p, p, nullptr});
}

void check_stages(const hierarchy& machine, std::span<const stage> stages) {
    stage_tree(machine, stages);
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (const std::string fault = fault_of(stages[s]); !fault.empty())
            throw plan_error(fmt::format("stages[{}]: {}", s, fault));
}

// A rank's blocks stand in scratch memory in the stages' order: all of them are copied there, or back, and its own the
// other way: 2 (1 + 1/P) vectors read and written.
double block_accesses(int ranks) { return 2 * (1 + 1.0 / ranks); }

// Where there is one stage, only a rank's own block is copied.
double own_block_accesses(int ranks) { return 2.0 / ranks; }

// The root of a broadcast copies its vector to where its peers reach it.
double root_accesses(int rank) { return rank == 0 ? 2 : 0; }

bool is_cut(const sample_place& p) { return p.pieces > 1; }

// Of the largest group of the last stage.
int most_positions(const layout& l) {
    int most = 1;
    for (const sample_place& p : l.places) most = std::max(most, p.positions);
    return most;
}

}  // namespace

std::string key_of(std::span<const stage> stages) {
    std::string key;
    for (const stage& s : stages)
        key +=
            fmt::format("{}-{}:{}:{}:{}:{}:{}:{}:{};", s.levels.front(), s.levels.back(), s.group, to_string(s.how),
                        s.algorithm, to_string(s.provider), s.route_share, fmt::join(s.shares, ":"), to_string(s.wire));
    return key;
}

pricer::pricer(const hierarchy& machine, sampler samples, std::shared_ptr<pattern_book> patterns)
    : machine_(machine),
      samples_(std::move(samples)),
      block_copies_(copies(machine, samples_, [&](int) { return block_accesses(machine.ranks()); })),
      root_copy_(copies(machine, samples_, root_accesses)),
      patterns_(std::move(patterns)) {}

std::shared_ptr<const stage_price> pricer::price_stage(std::span<const stage> up_to_it, const algorithm& a, provider by,
                                                       std::optional<collective> only) {
    const layout& l = samples_.lay_out(up_to_it);
    const auto priced = [&](const std::vector<int>& blocks, bool in_scratch) {
        const auto phase = [&](bool down) {
            return load_of(
                {machine_, samples_, l, a, by, down, root_part::none, in_scratch, blocks, false, up_to_it.back().wire},
                *patterns_);
        };
        return stage_price{phase(false), phase(true), nullptr};
    };
    // Shares are unequal shards of the last stage, and no stage depends on what it leaves to whom.
    if (const std::vector<int>& shares = up_to_it.back().shares; !shares.empty())
        return std::make_shared<const stage_price>(priced(shares, false));
    stage_price made = priced({}, false);
    // Between unequal siblings blocks are unequal shards: a sibling's are those of its ranks.
    const bool scatters = l.how == mode::scatter;
    const std::vector<int> blocks = scatters ? samples_.unequal_positions(l) : std::vector<int>{};
    const bool cut = scatters && std::any_of(l.places.begin(), l.places.end(), is_cut);
    const bool differs = !blocks.empty() || cut || (follows_buffers(a.provider) && scatters);
    if (differs && (!only || row_of(*only).blocks))
        made.of_blocks = std::make_shared<const stage_price>(priced(blocks, true));
    if (scatters && (!only || row_of(*only).has_root()))
        made.at_root = std::make_shared<const root_price>(price_at_root(l, a, by, made));
    return std::make_shared<const stage_price>(std::move(made));
}

// A rank that exchanges blocks has as many bytes to pass on after each stage as before: what a stage leaves it with,
// from all ranks of its domain, is as long as the vector. So the stages inside count as if they left everybody with
// everything. One in mode root leaves one rank with the vectors of all. In it each member sends that one all that it
// has, which a broadcast's messages are as long as, the other way; what comes down is as long again.
std::shared_ptr<const stage_price> pricer::price_exchange(std::span<const stage> up_to_it, const algorithm& a,
                                                          provider by) {
    std::vector<stage> stages(up_to_it.begin(), up_to_it.end());
    for (std::size_t s = 0; s + 1 < stages.size(); ++s)
        if (stages[s].how == mode::scatter) stages[s].how = mode::replicate;
    const layout& l = samples_.lay_out(stages);
    const bool to_one = stages.back().how == mode::root;
    const std::vector<int> blocks = to_one ? std::vector<int>{} : samples_.unequal_positions(l);
    phase_load load =
        load_of({machine_, samples_, l, a, by, to_one, root_part::none, true, blocks, !to_one}, *patterns_);
    const double vectors = vectors_of_one(up_to_it.first(up_to_it.size() - 1));
    return std::make_shared<const stage_price>(stage_price{scaled(std::move(load), vectors), {}, nullptr});
}

// The vectors that one rank has after stages of an alltoall: those of all ranks that it stands for.
double pricer::vectors_of_one(std::span<const stage> stages) {
    double vectors = 1;
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (stages[s].how == mode::root) vectors *= most_positions(samples_.lay_out(stages.first(s + 1)));
    return vectors;
}

// Over large groups about as much as where every rank has something to scatter and gather.
root_price pricer::price_at_root(const layout& l, const algorithm& a, provider by, const stage_price& of_all) {
    if (l.places.front().positions > policy.told_apart) return {of_all.up, of_all.down, of_all.down, of_all.up};
    const std::vector<int> equal;
    const auto phase = [&](bool down, root_part part) {
        return load_of({machine_, samples_, l, a, by, down, part, false, equal}, *patterns_);
    };
    // Collectives of providers are among all members.
    const root_part at_root = a.sends() ? root_part::relieved : root_part::moves;
    const root_part at_others = a.sends() ? root_part::passed : root_part::none;
    return {phase(false, at_root), phase(true, at_root), phase(true, at_others), phase(false, at_others)};
}

// To or from a root. In mode root one rank of each domain has all that the domains inside have, and gathers, or
// scatters, as a broadcast's root does that has a vector so much shorter. In mode scatter the ranks of the root's
// domain share what comes for it, as in a reduce.
// @param down to it
phase_load pricer::load_of_rooted_exchange(std::span<const stage> up_to_it, const algorithm& a, provider by,
                                           bool down) {
    std::vector<stage> stages(up_to_it.begin(), up_to_it.end());
    const bool through_one = stages.back().how == mode::root;
    stages.back().how = mode::scatter;
    const layout& l = samples_.lay_out(stages);
    const std::vector<int> blocks = samples_.unequal_positions(l);
    phase_load load = load_of(
        {machine_, samples_, l, a, by, down, root_part::moves, true, blocks, false, wire_type::exact, through_one},
        *patterns_);
    return through_one ? scaled(std::move(load), part_of_domain(l)) : load;
}

// Blocks that pass through one rank of a domain: handed on by it, or given to it.
const std::shared_ptr<const stage_price>& pricer::price_handing(std::span<const stage> up_to_it) {
    std::shared_ptr<const stage_price>& known = handing_[key_of(up_to_it)];
    if (known == nullptr) {
        const stage& s = up_to_it.back();
        const auto load = [&](bool down) {
            return load_of_rooted_exchange(up_to_it, *find_algorithm(s), s.provider, down);
        };
        known = std::make_shared<const stage_price>(stage_price{load(false), load(true), nullptr});
    }
    return known;
}

// Returns the part of all ranks in the largest domain of the last stage.
double pricer::part_of_domain(const layout& l) const {
    int most = 1;
    for (const sample_place& p : l.places)
        most = std::max(
            most, samples_.first_rank(l, l.from, p.first + p.positions) - samples_.first_rank(l, l.from, p.first));
    return static_cast<double>(most) / machine_.ranks();
}

// Nodes of a torus are alike: a dimension that comes earlier or later costs what it does of a longer or shorter vector.
std::vector<leg> pricer::legs_of(std::span<const stage> stages,
                                 std::vector<std::shared_ptr<const stage_price>> costs) const {
    const routes ways = routes_of(machine_, stages);
    std::vector<leg> legs;
    for (int s = 0; s < ways.common; ++s) legs.push_back({s, 0, std::move(costs[at(s)])});
    const double all = std::accumulate(ways.shares.begin(), ways.shares.end(), 0.0);
    for (int r = 0; r < ways.count(); ++r)
        for (const int s : ways.orders[at(r)]) {
            const double part = ways.shares[at(r)] / all * growth_in_order(stages, ways.orders[at(r)], s);
            const stage_price& whole = *costs[at(s)];
            legs.push_back({s, r + 1,
                            std::make_shared<const stage_price>(
                                stage_price{scaled(whole.up, part), scaled(whole.down, part), nullptr})});
        }
    return legs;
}

// Between stages blocks are put together that go to the same rank: all are read and written once in each stage. To or
// from a root that is what a domain's ranks have, before each stage but the first; where its ranks share them, all of
// the root's.
double pricer::exchange_accesses(collective what, std::span<const stage> stages) {
    double accesses = own_block_accesses(machine_.ranks());
    if (!row_of(what).has_root() && stages.size() == 1) return accesses;
    if (!row_of(what).has_root()) {
        accesses = 0;
        for (std::size_t s = 0; s < stages.size(); ++s) accesses += 2 * vectors_of_one(stages.first(s));
        return accesses;
    }
    if (stages.front().how == mode::scatter) return stages.size() > 1 ? accesses + 2 : accesses;
    for (std::size_t s = 1; s < stages.size(); ++s) accesses += 2 * part_of_domain(samples_.lay_out(stages.first(s)));
    return accesses;
}

// Copies count with the innermost stage.
price pricer::price_together(collective what, std::span<const stage> stages,
                             std::vector<std::shared_ptr<const stage_price>> costs) {
    std::vector<leg> legs = legs_of(stages, costs);
    if (row_of(what).exchange) {
        for (std::size_t s = 0; s < stages.size(); ++s)
            if (stages[s].how == mode::root && !row_of(what).has_root())
                legs.push_back({static_cast<int>(s), 0, costs[s]});  // down
        const double accesses = exchange_accesses(what, stages);
        legs.push_back({0, 0, copies(machine_, samples_, [&](int) { return accesses; })});
    } else if (row_of(what).blocks) {
        for (std::size_t s = 0; s < stages.size() && stages[s].how == mode::root; ++s)
            legs.push_back({static_cast<int>(s), 0, price_handing(stages.first(s + 1))});
        legs.push_back({0, 0, block_copies_});
    }
    if (what == collective::broadcast && follows_buffers(stages.front().provider) && !on_gpus(machine_))
        legs.push_back({0, 0, root_copy_});
    const auto [least, is_new] = limits_.try_emplace(what);
    if (is_new) least->second = limit(machine_, 1, what);
    return price(machine_, samples_, what, std::move(legs), least->second);
}

std::shared_ptr<const stage_price> pricer::price_last_stage(std::span<const stage> up_to_it, const algorithm& a,
                                                            provider by, collective what, bool alone) {
    if (!row_of(what).exchange) return price_stage(up_to_it, a, by, alone ? std::optional(what) : std::nullopt);
    if (!row_of(what).has_root()) return price_exchange(up_to_it, a, by);
    return std::make_shared<const stage_price>(
        stage_price{load_of_rooted_exchange(up_to_it, a, by, true), {}, nullptr});
}

price pricer::price_stages(std::span<const stage> stages, collective what) {
    check_stages(machine_, stages);
    std::vector<std::shared_ptr<const stage_price>> prices;
    if (row_of(what).exchange) check_exchange(stages, what);
    for (std::size_t s = 0; s < stages.size(); ++s)
        prices.push_back(
            price_last_stage(stages.first(s + 1), *find_algorithm(stages[s]), stages[s].provider, what, true));
    return price_together(what, stages, std::move(prices));
}

// MPI's own collectives are taken to be as fast as messages of an algorithm, and are never chosen.
std::vector<stage_option> pricer::options_of(std::span<const stage> up_to_it, collective what) {
    const int size = most_positions(samples_.lay_out(up_to_it));
    const stage& s = up_to_it.back();
    std::vector<stage_option> able;
    const auto add = [&](const algorithm& a, provider by) {
        able.push_back({&a, by, price_last_stage(up_to_it, a, by, what, false)});
    };
    const auto is_worth_it = [&](const algorithm& a) {
        if (row_of(what).exchange && a.exchange == nullptr) return false;
        return available(machine_, s, a) && patterns_->worth_a_look(a, s.how, size);
    };
    for (const algorithm& a : algorithms()) {
        if (!is_worth_it(a)) continue;
        add(a, provider::messages);
        if (available_over_mpi(machine_, s, a)) add(a, provider::mpi);
    }
    for (const algorithm& a : provider_collectives())
        if (a.provider != provider::mpi && is_worth_it(a)) add(a, a.provider);
    return able;
}

std::vector<std::span<const stage_option>> pricer::price_options(std::span<const stage> stages, collective what) {
    auto& options = !row_of(what).exchange    ? options_
                    : row_of(what).has_root() ? rooted_exchange_options_
                                              : exchange_options_;
    std::vector<std::span<const stage_option>> result;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const auto [known, is_new] = options.try_emplace(key_of_layout(stages.first(s + 1)));
        if (is_new) known->second = options_of(stages.first(s + 1), what);
        result.push_back(known->second);
    }
    return result;
}

}  // namespace terrace::detail
