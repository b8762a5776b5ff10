#include "planner/pricer.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "plan/routes.hpp"
#include "planner/available.hpp"
#include "planner/figures.hpp"
#include "schedule/exchange.hpp"

namespace terrace::detail {

namespace {

// Length of a vector that all usual shares divide: 2^10 3^5 5^3 7^2 11 13 17 19 23 elements.
constexpr std::int64_t elements = std::int64_t{1024} * 243 * 125 * 49 * 11 * 13 * 17 * 19 * 23;
// Smaller parts of the vector exist only because cuts were rounded.
constexpr double rounded_away = 1e-9;

// Returns the same text for stages with the same groups.
std::string key_of_layout(std::span<const stage> stages) {
    std::string key;
    for (const stage& s : stages)
        key += fmt::format("{}-{}:{}:{}:{};", s.levels.front(), s.levels.back(), s.group, static_cast<int>(s.how),
                           fmt::join(s.shares, ":"));
    return key;
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

pricer::pricer(const hierarchy& machine, int all_up_to)
    : machine_(machine),
      rows_(machine),
      ranks_(machine, rows_, all_up_to),
      sums_(rows_),
      layouts_(3, layout{{}, {}, group_composer(elements), {}}) {}

// Returns the price of copies that each rank makes by itself, in the innermost stage. The arguments are the vectors
// read and written.
stage_pass pricer::copies(double by_root, double by_others) const {
    phase_load p;
    std::vector<processor_load> loads;
    for (const int rank : ranks_.ranks())
        loads.push_back({{}, {}, static_cast<float>((rank == 0 ? by_root : by_others) * access_time(machine_))});
    set_loads(p, std::move(loads), ranks_.weights());
    return {.load = std::make_shared<const phase_load>(std::move(p))};
}

// Cuts between unequal blocks depend on outer stages as well.
std::string pricer::key_of_groups(std::span<const stage> stages, std::size_t number, collective what) const {
    if (divided_by(what) != division_by::blocks) return key_of_layout(stages.first(number + 1));
    return fmt::format("{} of {}", number, key_of_layout(stages));
}

// Returns the groups of the stages. In an exchange with a root, ranks meet as in mode scatter.
const pricer::layout& pricer::lay_out(std::span<const stage> stages, collective what) {
    const division_by how = divided_by(what);
    layout& last = layouts_[static_cast<std::size_t>(how)];
    std::vector<stage> meeting;
    for (const stage& s : stages) {
        const bool scatters = row_of(what).exchange && row_of(what).has_root();
        meeting.push_back(
            {.levels = s.levels, .group = s.group, .how = scatters ? mode::scatter : s.how, .shares = s.shares});
    }
    if (last.stages == meeting) return last;
    const auto same_domains = [](const stage& a, const stage& b) {
        return a.levels == b.levels && a.group == b.group && a.shares == b.shares;
    };
    if (!std::ranges::equal(last.stages, meeting, same_domains))
        last.seen = route_view::in_plan_order(
            stage_tree(machine_, meeting),
            {.stages = meeting, .root = how == division_by::root ? 0 : -1, .ranks = ranks_.ranks()});
    const auto known = std::ranges::mismatch(last.stages, meeting).in2 - meeting.begin();
    if (how == division_by::blocks) last.of_blocks = compose_block_groups(machine_, meeting);
    else last.composer.compose(*last.seen, meeting, static_cast<std::size_t>(known));
    last.stages = std::move(meeting);
    return last;
}

// Returns the movements of groups by domain. Each group of samples represents so many others of its domain that they
// have the whole vector. If the innermost stages have mode root, a member represents the ranks whose sums it has.
std::vector<moving_domain> pricer::domains_of(const running_stage& s, bool down, movement of_group) {
    const layout& l = lay_out(s.stages, s.what);
    const bool all = has_all_groups(s.what);
    const int level = static_cast<int>(s.number);
    const auto weight_of = [&](range ranks) {
        return ranks_.weight_of(static_cast<int>(ranks.begin), static_cast<int>(ranks.end));
    };
    const auto ranks_like = [&](int rank) {
        const range child = ranks_around(l.shape(), level - 1, rank);
        return ranks_.weights()[at(ranks_.of(rank))] * static_cast<double>(child.count()) / weight_of(child);
    };
    int roots = 0;  // number of innermost stages in mode root
    while (roots < level && l.stages[at(roots)].how == mode::root) ++roots;
    struct found {
        double parts = 0;  // part of the vector that groups of samples have
        std::vector<double> raw = {};
        moving_domain moving = {};
    };
    std::map<int, found> domains;
    for (const group& g : l.groups().stages[s.number].groups) {
        const double part = static_cast<double>(g.whole().count()) / static_cast<double>(l.groups().count);
        const auto first = std::ranges::find_if(g.members(), [&](int r) { return ranks_.of(r) != samples::none; });
        if (part < rounded_away || (first == g.members().end() && !all)) continue;
        found& of = domains[l.shape().domain_of(level, g.rank(0))];
        const double raw = all ? 1
                               : ranks_like(*first) * weight_of(ranks_around(l.shape(), roots - 1, *first)) /
                                     ranks_.weights()[at(ranks_.of(*first))];
        of.parts += raw * part;
        std::optional<moving_group> moves = (this->*of_group)(s, l, g, down);
        if (!moves || moves->who.size() < 2) continue;
        for (int i = 0; i < moves->who.size(); ++i)
            if (const int rank = moves->who.rank(i); ranks_.of(rank) != samples::none)
                moves->sampled.push_back({i, ranks_.of(rank), ranks_like(rank)});
        if (!all) moves->representative = {0, ranks_.of(*first), ranks_like(*first)};
        of.moving.push_back(std::move(*moves));
        of.raw.push_back(raw);
    }
    std::vector<moving_domain> made;
    for (auto& [domain, of] : domains) {
        for (std::size_t i = 0; i < of.moving.size(); ++i)
            if (of.moving[i].like == 0) of.moving[i].like = all ? 1 : of.raw[i] / of.parts;
        if (!of.moving.empty()) made.push_back(std::move(of.moving));
    }
    return made;
}

// @param part part of the vector that the group divides
moving_group pricer::moving(const running_stage& s, group who, algorithm::generator emit, double part, bool root_adds) {
    const bool own = emit == s.by.up(s.itself().how) || emit == s.by.down(s.itself().how);
    const bool in_rings = own && s.by.graph == message_graph::node_rings;
    if (in_rings) who = who.with_nodes(nodes_of(machine_, who.members()));
    moving_group made{.who = who, .how = {}, .part = part};
    made.side_by_side = std::ranges::adjacent_find(who.nodes()) != who.nodes().end();
    const bool passes_all = who.size() > 2 && std::ranges::none_of(who.shards(), &range::empty);
    made.around = in_rings || (own && s.by.graph == message_graph::one_neighbour && passes_all);
    // Many algorithms scatter and gather as the algorithm that sends straight to all.
    const algorithm& straight = *known_algorithms().find(message_graph::all_at_once, mode::scatter);
    const algorithm& by = emit == straight.scatter || emit == straight.gather ? straight : s.by;
    const int startups = follows_buffers(by.provider) ? 0 : by.startups(who.size());
    made.how = read_programs(who, {emit, startups, root_adds}, policy.large_group);
    return made;
}

std::optional<moving_group> pricer::moved(const running_stage& s, const layout& l, const group& g, bool down) {
    group_move moves = move_of(l.groups().stages[s.number], s.by, s.what, g, down);
    if (moves.emit == nullptr || moves.who.size() < 2) return {};
    const double part = static_cast<double>(moves.who.whole().count()) / static_cast<double>(l.groups().count);
    return moving(s, std::move(moves.who), moves.emit, part, moves.root_adds);
}

std::optional<moving_group> pricer::exchanged(const running_stage& s, const layout& l, const group& g, bool down) {
    const int level = static_cast<int>(s.number);
    const exchange_stage stage{
        s.by, s.what, l.groups().stages[s.number].how, level, l.shape(), down, l.groups().count, l.first_block()};
    moving_group made{.who = g, .how = exchange_moves(stage, g, policy.told_apart), .part = 1};
    if (made.how.messages.empty()) return {};
    if (made.how.alone) made.like = 1;
    return made;
}

// Returns the movement of blocks that pass through one rank of a domain, which forwards or collects them.
std::optional<moving_group> pricer::forwarding_moves(const running_stage& s, const layout& l, const group& g,
                                                     bool down) {
    const group who = forwarding_of(g, l.shape(), static_cast<int>(s.number));
    const double part = static_cast<double>(who.whole().count()) / machine_.ranks();
    return moving(s, who, down ? s.by.scatter : s.by.gather, part, false);
}

std::shared_ptr<const phase_load> pricer::load(const running_stage& s, bool down, movement of_group) {
    const bool at_root = row_of(s.what).has_root() && down == row_of(s.what).up;
    const bool reduces = row_of(s.what).up && !row_of(s.what).has_root();
    const stage_phase phase{.machine = machine_,
                            .rows = rows_,
                            .ranks = ranks_,
                            .what = s.itself(),
                            .by = s.provider,
                            .wire = reduces ? s.itself().wire : wire_type::exact,
                            .down = down,
                            .one_by_one = row_of(s.what).has_root(),
                            .all_groups = has_all_groups(s.what),
                            .from_caller = s.number == 0 && !at_root,
                            .in_scratch = row_of(s.what).blocks};
    return std::make_shared<const phase_load>(load_of(phase, domains_of(s, down, of_group), sums_));
}

std::shared_ptr<const phase_load> pricer::price_phase(const running_stage& s, bool down) {
    const division_by how = divided_by(s.what);
    const bool by_provider = follows_buffers(s.provider);
    std::shared_ptr<const phase_load>& known = phases_[fmt::format(
        "{} {} {} {} {} {} {} {}", static_cast<int>(how), how == division_by::root ? to_string(s.what) : "",
        by_provider && row_of(s.what).blocks, key_of_groups(s.stages, s.number, s.what), s.by.name,
        to_string(s.provider), to_string(s.itself().wire), down)];
    if (known == nullptr) known = load(s, down, &pricer::moved);
    return known;
}

std::shared_ptr<const stage_price> pricer::price_stage(const running_stage& s) {
    stage_price made;
    const auto add = [&](bool down, movement of_group) { made.phases.push_back(load(s, down, of_group)); };
    const mode how = s.itself().how;
    for (const bool down : {false, true})
        if (row_of(s.what).exchange) {
            if (exchange_goes(s.what, how, down)) add(down, &pricer::exchanged);
        } else if ((down ? row_of(s.what).down : row_of(s.what).up) || row_of(s.what).has_root()) {
            made.phases.push_back(price_phase(s, down));
        }
    if (how == mode::root && row_of(s.what).blocks && !row_of(s.what).exchange)
        add(row_of(s.what).up, &pricer::forwarding_moves);
    return std::make_shared<const stage_price>(std::move(made));
}

// Nodes of a torus are alike, so an earlier or later dimension costs the same as with a longer or shorter vector.
std::vector<stage_pass> pricer::passes_of(std::span<const stage> stages,
                                          std::span<const std::shared_ptr<const stage_price>> costs) const {
    const routes ways = routes_of(machine_, stages);
    std::vector<stage_pass> passes;
    const auto add = [&](int stage, int route, double part) {
        for (const auto& p : costs[at(stage)]->phases) passes.push_back({stage, route, part, p});
    };
    for (int s = 0; s < ways.common; ++s) add(s, 0, 1);
    const double all = std::accumulate(ways.shares.begin(), ways.shares.end(), 0.0);
    for (int r = 0; r < ways.count(); ++r)
        for (const int s : ways.orders[at(r)])
            add(s, r + 1, ways.shares[at(r)] / all * growth_in_order(stages, ways.orders[at(r)], s));
    return passes;
}

// Copies count as part of the innermost stage.
price pricer::price_together(collective what, std::span<const stage> stages,
                             std::span<const std::shared_ptr<const stage_price>> costs) {
    std::vector<stage_pass> passes = passes_of(stages, costs);
    if (row_of(what).blocks) {
        const double copied = copied_vectors(machine_, stages, what);
        passes.push_back(copies(2 * copied, 2 * copied));
    }
    // The root of a broadcast copies its vector to memory that its peers can read.
    if (what == collective::broadcast && follows_buffers(stages.front().provider) && !on_gpus(machine_))
        passes.push_back(copies(2, 0));
    const auto [least, is_new] = limits_.try_emplace(what);
    if (is_new) least->second = limit(machine_, 1, what);
    return price(rows_, ranks_, what, std::move(passes), least->second);
}

price pricer::price_stages(std::span<const stage> stages, collective what) {
    stage_tree(machine_, stages);
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (const std::string fault = fault_of(stages[s]); !fault.empty())
            throw plan_error(fmt::format("stages[{}]: {}", s, fault));
    if (row_of(what).exchange) expect_none(fault_of_exchange(stages, what));
    std::vector<std::shared_ptr<const stage_price>> prices;
    for (std::size_t s = 0; s < stages.size(); ++s)
        prices.push_back(price_stage({stages, s, *find_algorithm(stages[s]), stages[s].provider, what}));
    return price_together(what, stages, prices);
}

// MPI's own collectives are assumed to be as fast as messages of an algorithm, and are never chosen.
std::vector<stage_option> pricer::price_options(std::span<const stage> stages, std::size_t number, collective what) {
    const tree& shape = lay_out(stages, what).shape();
    const int size = std::ranges::max(shape.children()[number]);
    const stage& s = stages[number];
    bool equal = true;  // inner domains divide the vector alike, as NCCL's collectives require
    for (std::size_t n = 0; n < number; ++n) equal &= !has_shares_by_domain(stages[n], shape, static_cast<int>(n));
    std::vector<stage_option> able;
    const auto add = [&](const algorithm& a, provider by) {
        able.push_back({&a, by, price_stage({stages, number, a, by, what})});
    };
    const auto is_worth_it = [&](const algorithm& a) {
        if ((row_of(what).exchange && a.exchange == nullptr) || (a.provider == provider::nccl && !equal)) return false;
        return available(machine_, s, a) && worth_a_look(a, s.how, size);
    };
    for (const std::span<const algorithm> rows : {algorithms(), provider_collectives()})
        for (const algorithm& a : rows) {
            if (a.provider == provider::mpi || !is_worth_it(a)) continue;
            add(a, a.provider);
            if (available_over_mpi(machine_, s, a)) add(a, provider::mpi);
        }
    return able;
}

}  // namespace terrace::detail
