#include "schedule/compose.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "plan/routes.hpp"
#include "schedule/block_layout.hpp"
#include "schedule/exchange.hpp"

namespace terrace::detail {

namespace {

// Composes one stage: the groups of all domains of a level, from the ownerships of the level's children.
class stage_composer {
public:
    // @param route route of the stage, from 1; 0: all
    stage_composer(const composition_request& asked, const route_view& seen, int route, int level,
                   const ownerships& children)
        : asked_(asked), view_(seen), level_(level), number_(seen.stage_of(level)), children_(children) {
        const stage& s = asked.stages[at(number_)];
        made_.how = s.how;
        made_.wire = instructed(s.wire);
        made_.number = number_;
        made_.route = route;
        if (asked.only_groups) return;
        made_.by = find_algorithm(s);
        if (const std::string fault = fault_of(s); !fault.empty()) fail(fault);
        if (route > 0 && !s.sends())
            fail(
                fmt::format("provider {} runs one collective of a lane at a time, but stages with a route_share run "
                            "side by side; name an algorithm",
                            to_string(s.provider)));
    }

    ownerships run() {
        ownerships after;
        const bool last = level_ + 1 == shape().depth(), only_groups = asked_.only_groups && !asked_.for_all();
        for (const int d : wanted_domains()) {
            const auto [known, is_new] = after.try_emplace(view_.kind_of(level_, d));
            combine(d, is_new && !(last && only_groups) ? &known->second : nullptr);
        }
        finish();
        return after;
    }
    composed_stage take() { return std::move(made_); }

private:
    const tree& shape() const { return view_.shape(); }
    // Returns the requested ranks in a domain of a level.
    std::span<const int> asked_in(int level, int domain) const {
        const auto first = std::ranges::lower_bound(view_.ranks(), shape().first_rank(level, domain));
        return {first, std::lower_bound(first, view_.ranks().end(), shape().first_rank(level, domain + 1))};
    }
    // Returns all domains of the level, or those of the requested ranks and one of each kind; ascending.
    std::vector<int> wanted_domains() const {
        std::vector<int> domains = view_.first_of_kinds(level_);
        for (int d = 0; asked_.for_all() && d < shape().domains(level_); ++d) domains.push_back(d);
        for (const int rank : view_.ranks()) domains.push_back(shape().domain_of(level_, rank));
        keep_different(domains);
        return domains;
    }
    const ownership& of_child(int child) const {
        return children_.at(level_ == 0 ? 0 : view_.kind_of(level_ - 1, child));
    }

    // Composes one domain's stage: a group per interval and replica. `after`, unless null, gets the ownership after the
    // stage; in the outermost stage of a composition for some ranks, only of intervals with these ranks.
    void combine(int domain, ownership* after) {
        const int first = shape().first_child(level_, domain), children = shape().children(level_, domain);
        if (children == 1) {
            if (after != nullptr) *after = of_child(first);
            return;
        }
        std::vector<const ownership*> siblings;
        for (int c = first; c < first + children; ++c) siblings.push_back(&of_child(c));
        const bool partly = !asked_.for_all() && level_ + 1 == shape().depth();
        std::vector<std::pair<std::size_t, int>> wanted;  // sibling, rank counted from its first
        for (const int rank : asked_in(level_, domain)) {
            const int child = shape().domain_of(level_ - 1, rank);
            wanted.emplace_back(at(child - first), rank - shape().first_rank(level_ - 1, child));
        }
        int ordinal = 0, number = 0;
        for_each_segment(siblings, [&](range segment, const std::vector<const std::vector<int>*>& owners) {
            const auto replicas = static_cast<int>(owners.front()->size());
            for (const std::vector<int>* each : owners)
                if (static_cast<int>(each->size()) != replicas)
                    fail(fmt::format("mode replicate below siblings of unequal size ({} and {} ranks)", replicas,
                                     each->size()));
            const bool is_member = std::ranges::any_of(
                wanted, [&](const auto& each) { return contains(*owners[each.first], each.second); });
            if (asked_.for_all() || is_member || (after != nullptr && !partly))
                add_groups(domain, segment, owners, ordinal, number, partly && !is_member ? nullptr : after);
            ++ordinal;
            number += replicas;
        });
    }

    // Replicas of an interval run the same stage side by side, each replica in its own group, and remain replicas.
    void add_groups(int domain, range segment, const std::vector<const std::vector<int>*>& owners, int ordinal,
                    int number, ownership* after) {
        const int size = static_cast<int>(owners.size()), child = shape().first_child(level_, domain);
        std::vector<std::vector<int>> members(owners.front()->size());
        for (int i = 0; i < size; ++i)
            for (std::size_t replica = 0; replica < members.size(); ++replica)
                members[replica].push_back(shape().first_rank(level_ - 1, child + i) + (*owners[at(i)])[replica]);
        const int root = root_position(domain, ordinal);
        std::vector<range> shards;
        const std::span<const int> shares = shares_of(asked_.stages[at(number_)], shape(), level_, domain);
        if (!shares.empty()) shards = weighted(segment, shares, asked_.quantum);
        for (int i = 0; i < size && shares.empty(); ++i) shards.push_back(partition(segment, size, i, asked_.quantum));

        if (after != nullptr) {
            const int first = shape().first_rank(level_, domain);
            std::vector<int> all;
            for (int i = 0; i < size; ++i) {
                std::vector<int> here;
                for (const std::vector<int>& replica : members) here.push_back(replica[at(i)] - first);
                if (made_.how == mode::scatter) append(*after, shards[at(i)], here);
                else if (made_.how == mode::root && i == root) append(*after, segment, here);
                all.insert(all.end(), here.begin(), here.end());
            }
            if (made_.how == mode::replicate) append(*after, segment, all);
        }
        for (std::vector<int>& replica : members) {
            const bool meets = asked_.for_all() || std::ranges::any_of(replica, [&](int member) {
                                   return std::ranges::binary_search(view_.ranks(), member);
                               });
            for (int& member : replica) member = view_.plan_rank(member);
            if (meets) made_.groups.emplace_back(std::move(replica), shards, root, number);
            ++number;
        }
    }

    // Returns the position of the sibling with the call's root. In other domains, in mode root, successive intervals
    // have successive siblings as roots, to distribute the load.
    int root_position(int domain, int ordinal) const {
        const int root = view_.root();
        if (made_.how != mode::replicate && root >= 0 && shape().domain_of(level_, root) == domain)
            return shape().domain_of(level_ - 1, root) - shape().first_child(level_, domain);
        return made_.how == mode::root ? wrap(ordinal, shape().children(level_, domain)) : group::no_root;
    }

    void finish() {
        const int root = view_.root();
        made_.meets_root = root >= 0 && shape().children(level_, shape().domain_of(level_, root)) > 1;
        if (asked_.only_groups && !asked_.for_all()) return;
        made_.first_rank = asked_.for_all() ? 0 : asked_.ranks.front();
        made_.of_rank.resize(asked_.for_all() ? at(shape().ranks()) : 1);
        for (int g = 0; g < static_cast<int>(made_.groups.size()); ++g)
            for (const int rank : made_.groups[at(g)].members())
                if (asked_.for_all() || rank == made_.first_rank)
                    made_.of_rank[at(rank - made_.first_rank)].push_back(g);
        if (!asked_.tree.empty()) {
            made_.domains.resize(at(shape().ranks()));
            for (int r = 0; r < shape().ranks(); ++r)
                made_.domains[at(view_.plan_rank(r))] = shape().domain_of(level_ - 1, r);
        }
        if (asked_.count == 0 || asked_.only_groups) return;
        const std::vector<int>& sizes = shape().children()[at(level_)];
        for (const int size : std::set(sizes.begin(), sizes.end())) {
            if (size == 1) continue;
            made_.largest = std::max(made_.largest, size);
            made_.steps_up = std::max(made_.steps_up, steps_of(made_.by->up(made_.how), size));
            if (!asked_.tree.empty()) made_.steps_up = std::max(made_.steps_up, 2 * size);  // tree_stages::exchange
            made_.steps_down = std::max(made_.steps_down, steps_of(made_.by->down(made_.how), size));
            if (made_.how == mode::replicate) continue;
            for (const algorithm::generator emit : {made_.by->scatter, made_.by->gather})
                made_.steps_at_root = std::max(made_.steps_at_root, steps_of(emit, size));
        }
    }

    [[noreturn]] void fail(const std::string& why) const {
        throw stage_error(number_, fmt::format("stages[{}]: {}", number_, why));
    }

    const composition_request& asked_;
    const route_view& view_;
    int level_, number_;  // level in the view; number of the stage in the plan
    const ownerships& children_;
    composed_stage made_;
};

// Composes the stages of levels first ... end - 1 on one route (from 1; 0: all).
ownerships go_through(const composition_request& asked, const route_view& seen, int route, int first, int end,
                      ownerships known, composition& made) {
    for (int level = first; level < end; ++level) {
        stage_composer now(asked, seen, route, level, known);
        known = now.run();
        made.stages.push_back(now.take());
    }
    return known;
}

// Adds the parts that ranks own after the last stage.
void own(const composition_request& asked, const route_view& seen, int route, ownerships known, composition& made) {
    for (owned& o : known.begin()->second) {
        if (!asked.for_all() && !contains(o.owners, seen.ranks().front())) continue;
        for (int& owner : o.owners) owner = seen.plan_rank(owner);
        o.route = route;
        made.owners.push_back(std::move(o));
    }
}

composition compose_request(const hierarchy& machine, const composition_request& asked) {
    composition made;
    made.ranks = machine.ranks();
    made.root = asked.root;
    made.count = asked.count;
    made.tree.assign(asked.tree.begin(), asked.tree.end());
    const tree whole = stage_tree(machine, asked.stages);
    const routes all = routes_of(machine, asked.stages);
    ownerships known;
    append(known[0], {0, asked.count}, {0});  // at first each rank owns all of the vector
    const route_view in_plan = route_view::in_plan_order(whole, asked);
    known = go_through(asked, in_plan, 0, 0, all.common, std::move(known), made);
    if (all.count() == 0) own(asked, in_plan, 0, std::exchange(known, {}), made);
    for (int route = 1; route <= all.count(); ++route) {
        const route_view turned = route_view::turned(whole, all.orders[at(route - 1)], asked);
        made.routes.push_back(turned.plan_ranks());
        ownerships parts;  // owned parts, cut to the share of the route
        for (const auto& [kind, owns] : known) {
            ownership& part = parts[kind];
            for (const owned& o : owns)
                append(part, weighted(o.part, all.shares, asked.quantum)[at(route - 1)], o.owners);
        }
        parts = go_through(asked, turned, route, all.common, whole.depth(), std::move(parts), made);
        own(asked, turned, route, std::move(parts), made);
    }
    std::ranges::stable_sort(made.owners, {}, [](const owned& o) { return o.part.begin; });
    // Rings through nodes depend on the nodes of the members.
    for (composed_stage& s : made.stages)
        if (s.by != nullptr && s.by->graph == message_graph::node_rings)
            for (group& g : s.groups) g = g.with_nodes(nodes_of(machine, g.members()));
    return made;
}

}  // namespace

composition compose(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
                    int root, std::span<const int> tree) {
    return compose_request(machine, {stages, count, quantum, root, {}, tree});
}

composition compose_for(int rank, const hierarchy& machine, std::span<const stage> stages, std::int64_t count,
                        std::int64_t quantum, int root, std::span<const int> tree) {
    return compose_request(machine, {stages, count, quantum, root, {&rank, 1}, tree});
}

void group_composer::compose(const route_view& seen, std::span<const stage> stages, std::size_t known) {
    const composition_request asked{stages, all_.count, 1, seen.root(), seen.ranks(), {}, true};
    all_.ranks = seen.shape().ranks();
    all_.root = seen.root();
    all_.owners.clear();
    all_.stages.resize(known);
    after_.resize(known + 1);
    if (known == 0) after_.front().clear(), append(after_.front()[0], {0, all_.count}, {0});
    for (int level = static_cast<int>(known); level < seen.shape().depth(); ++level)
        after_.push_back(go_through(asked, seen, 0, level, level + 1, after_.back(), all_));
    if (asked.for_all()) own(asked, seen, 0, after_.back(), all_);
}

std::vector<int> nodes_of(const hierarchy& machine, std::span<const int> ranks) {
    std::vector<int> nodes;
    for (const int rank : ranks) nodes.push_back(machine.shape.domain_of(machine.node_levels() - 1, rank));
    return nodes;
}

void check_runnable(const plan_data& r) {
    for (const auto& [what, rules] : r.rules)
        for (std::size_t i = 0; i < rules.size(); ++i) {
            try {
                compose_for(0, r.machine, rules[i].stages, r.machine.ranks(), 1);
                if (row_of(what).exchange) expect_none(fault_of_exchange(rules[i].stages, what));
                else if (row_of(what).blocks) expect_none(fault_of_blocks(rules[i].stages));
            } catch (const stage_error& e) {
                const std::string message = fmt::format("{}.rules[{}].{}", to_string(what), i, e.what());
                if (r.file.empty()) throw plan_error(message);
                const source_location at_stage = rules[i].stages[at(e.number())].source;
                throw input_error(r.file, at_stage.line, at_stage.column, message);
            }
        }
}

}  // namespace terrace::detail
