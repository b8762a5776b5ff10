#include "schedule/verify/stages.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "schedule/lane_code.hpp"
#include "schedule/lone_stage.hpp"

namespace terrace::detail::proof {

stages::stages(const network& net) : net_(net), number_(net.size()) {
    for (const schedule& s : net.schedules()) copied_.push_back(gives_copy(s, lane_code(s)));
    meet();
    for (const stage_instance& s : instances_) check_terms(s);
}

// Finds the instances of all stages. A rank identifies its peers' stages by number alone. Numbers ascend, so a peer
// whose number is at least this one has reached the stage.
void stages::meet() {
    std::map<std::pair<int, std::vector<int>>, std::size_t> known;
    std::vector<int> last(net_.schedules().size(), -1);
    for (std::size_t id = 0; id < net_.size(); ++id) {
        const instr& i = net_.instruction(id);
        if (!is_stage(i.what)) continue;
        int& before = last[at(net_.rank(id))];
        if (i.channel <= before || i.channel >= 1 << stage_number_bits)
            net_.refuse(id, fmt::format("stage number {} follows {}", i.channel, before));
        before = i.channel;
        const group& g = group_of(id);
        const auto [entry, is_new] = known.try_emplace({i.channel, g.members()}, instances_.size());
        if (is_new)
            instances_.push_back({.ids = std::vector(g.members().size(), net_.size()), .members = {}, .work = {}});
        number_[id] = entry->second;
        instances_[entry->second].ids[at(g.position())] = id;
    }
}

buffer stages::own_part(std::size_t id) const {
    return own_part_of(net_.home(id), net_.instruction(id), copied_[at(net_.rank(id))]);
}

void stages::check_terms(const stage_instance& s) const {
    const auto first = std::find_if(s.ids.begin(), s.ids.end(), [&](std::size_t id) { return id < net_.size(); });
    const instr& terms = net_.instruction(*first);
    const group& g = group_of(*first);
    for (std::size_t position = 0; position < s.ids.size(); ++position) {
        const std::size_t id = s.ids[position];
        if (id == net_.size())
            net_.refuse(*first, fmt::format("rank {} does not run this stage", g.members()[position]));
        const instr& i = net_.instruction(id);
        if (!(group_of(id) == g.seen_from(static_cast<int>(position))))
            net_.refuse(id, fmt::format("its group is another one than on rank {}", net_.rank(*first)));
        const bool shared = terms.what == action::stage_allreduce;  // all members add
        if (i.what != terms.what || i.by != terms.by ||
            (shared && (i.completes != terms.completes || (i.sources > 0) != (terms.sources > 0))))
            net_.refuse(id, fmt::format("rank {} runs it on other terms", net_.rank(*first)));
        check_reach(id);
    }
}

// Checks that a rank's input is in the vector's home (or in send if the home is recv), where peers can access it.
void stages::check_reach(std::size_t id) const {
    const schedule& s = net_.home(id);
    const instr& i = net_.instruction(id);
    const auto inside = [&](const operand& o) {
        return o.part.empty() || o.where != buffer::scratch ||
               (s.home.where == buffer::scratch && o.part.end <= s.count);
    };
    const bool at_home = i.src.where == s.home.where || (s.home.where == buffer::recv && i.src.where == buffer::send);
    if (!inside(i.src) || !inside(i.dst) || (!i.src.part.empty() && !at_home))
        net_.refuse(id, fmt::format("peers do not reach {}", text(inside(i.dst) ? i.src : i.dst)));
}

std::vector<buffer_case> stages::cases() const {
    const std::size_t ranks = net_.schedules().size();
    bool by_place = false, by_reach = false;
    for (const stage_instance& s : instances_)
        for (const std::size_t id : s.ids) {
            const instr& i = net_.instruction(id);
            if (i.what != action::stage_allreduce || i.dst.where != buffer::recv) continue;
            by_place |= i.src.where == buffer::send;
            by_reach |= i.src.where == buffer::scratch;
        }
    const auto every_other = [&](std::size_t first) {
        std::vector<bool> ranks_of(ranks);
        for (std::size_t r = first; r < ranks; r += 2) ranks_of[r] = true;
        return ranks_of;
    };
    const std::vector<bool> none(ranks), all(ranks, true);
    std::vector<std::vector<bool>> places{none, all}, reaches{none};
    if (by_place) places.insert(places.end(), {every_other(0), every_other(1)});
    if (by_reach) reaches.insert(reaches.end(), {all, every_other(0), every_other(1)});
    std::vector<buffer_case> result;
    for (const std::vector<bool>& in_place : places)
        for (const std::vector<bool>& reachable : reaches) result.push_back({in_place, reachable});
    return result;
}

void stages::settle(const buffer_case& now) {
    for (stage_instance& s : instances_) {
        s.members.clear();
        bool any_in_place = false, all_reachable = true;
        for (const std::size_t id : s.ids) {
            const instr& i = net_.instruction(id);
            const std::size_t rank = at(net_.rank(id));
            const member_memory m{.in_place = same_memory(i.src.where, i.dst.where, now.in_place[rank]),
                                  .result_reachable = i.dst.where == buffer::scratch ||
                                                      net_.home(id).home.where == buffer::recv || now.reachable[rank],
                                  .own_in_result = same_memory(own_part(id), i.dst.where, now.in_place[rank])};
            any_in_place |= m.in_place;
            all_reachable &= m.result_reachable;
            s.members.push_back(m);
        }
        const std::size_t first = s.ids.front();
        const instr& terms = net_.instruction(first);
        const sharing how = sharing_of(terms.sources > 0, any_in_place, all_reachable);
        s.work = stage_work(terms.what, group_of(first).root(), how);
        check_operands(s);
        std::vector<bool> empty;
        for (const range shard : shards_of(s)) empty.push_back(shard.empty());
        if (!proved_.emplace(terms.what, how, group_of(first).root(), s.members, empty).second) continue;
        if (const auto fault = find_stage_fault(s.work, std::span<const member_memory>(s.members), shards_of(s)))
            net_.refuse(first, *fault);
    }
}

operand stages::operand_of(const stage_instance& s, const stage_part& p, bool own) const {
    const std::size_t id = s.ids[at(p.owner)];
    if (own) return {own_part(id), p.part};
    const instr& i = net_.instruction(id);
    return {p.memory == stage_memory::result ? i.dst.where : i.src.where, p.part};
}

// Checks that all memory that members use lies inside the operands of its owner.
void stages::check_operands(const stage_instance& s) const {
    const auto expect = [&](std::size_t user, std::size_t owner, range declared, range part, std::string_view what) {
        if (!declared.contains(part))
            net_.refuse(user, fmt::format("uses elements [{}, {}) of rank {}, which {} [{}, {})", part.begin, part.end,
                                          net_.rank(owner), what, declared.begin, declared.end));
    };
    for (const std::size_t id : s.ids)
        for (int r = 0; r < s.work.rounds(); ++r) {
            const stage_step now = step(id, r);
            const auto check = [&](const stage_part& p, bool own) {
                const std::size_t owner = s.ids[at(p.owner)];
                const instr& i = net_.instruction(owner);
                if (own && i.sources > 0)
                    expect(id, owner, net_.home(owner).sources_of(i).front().part, p.part, "keeps");
                else if (own || p.memory == stage_memory::given) expect(id, owner, i.src.part, p.part, "gives");
                else expect(id, owner, i.dst.part, p.part, "gets");
            };
            for (const stage_part& p : now.reads) check(p, now.adds && p.owner == position_of(id));
            for (const stage_part& p : now.writes) check(p, false);
        }
}

}  // namespace terrace::detail::proof
