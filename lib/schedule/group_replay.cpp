#include "schedule/group_replay.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

struct misfit {
    std::string text;
};

// A part of the vector that a rank has, summed up over ranks [first, end): as they stand, or in the order of a route.
struct sum {
    range part;
    int first = 0, end = 0;
    int route = 0;  // that the part takes, from 1; 0: not on one yet
};

// Follows what ranks have from stage to stage, from the groups alone.
class replay {
public:
    replay(const composition& c, bool hands_down) : composition_(c), owners_(c.owners), has_(at(c.ranks)) {
        if (hands_down) find_carriers();
        for (int r = 0; r < c.ranks; ++r)
            if (c.count > 0) has_[at(r)] = {{{0, c.count}, r, r + 1}};
        for (const std::vector<int>& route : c.routes) {
            std::vector<int>& places = places_.emplace_back(at(c.ranks), -1);
            for (std::size_t place = 0; place < route.size(); ++place)
                places[at(route[place])] = static_cast<int>(place);
        }
    }

    void run() {
        for (stage_ = 0; stage_ < composition_.stages.size(); ++stage_) {
            std::vector<std::vector<sum>> made(has_.size());
            const composed_stage& s = composition_.stages[stage_];
            for (const group& g : s.groups) combine(s, g, made);
            for (std::size_t r = 0; r < has_.size(); ++r) {
                made[r].insert(made[r].end(), has_[r].begin(), has_[r].end());
                has_[r] = joined(std::move(made[r]));
            }
        }
        check_owners();
    }

private:
    static std::vector<sum> joined(std::vector<sum> parts) {
        std::sort(parts.begin(), parts.end(), [](const sum& a, const sum& b) { return a.part.begin < b.part.begin; });
        std::vector<sum> result;
        for (const sum& s : parts) {
            const bool goes_on = !result.empty() && result.back().part.end == s.part.begin &&
                                 result.back().first == s.first && result.back().end == s.end &&
                                 result.back().route == s.route;
            if (goes_on) result.back().part.end = s.part.end;
            else result.push_back(s);
        }
        return result;
    }

    void combine(const composed_stage& s, const group& g, std::vector<std::vector<sum>>& made) {
        if (g.whole().empty()) return;
        int first = 0, end = 0, has_root = group::no_root;
        for (std::size_t i = 0; i < g.members().size(); ++i) {
            const sum taken = take(g.members()[i], g.whole(), s.route);
            if (i > 0 && taken.first != end)
                refuse(g, fmt::format("rank {} brings the sum of ranks {} to {} where {} is next", g.members()[i],
                                      taken.first, taken.end - 1, end));
            if (i == 0) first = taken.first;
            end = taken.end;
            if (taken.first <= root_of(s) && root_of(s) < taken.end) has_root = static_cast<int>(i);
        }
        if (s.how == mode::root && has_root == group::no_root) has_root = g.root();
        if (s.how != mode::replicate && composition_.root >= 0 && has_root != g.root())
            refuse(g, fmt::format("its root is position {}, but the call's is in position {}", g.root(), has_root));
        std::int64_t covered = g.whole().begin;
        for (const range& shard : g.shards()) {
            if (shard.begin != covered && !shard.empty()) refuse(g, "its shards do not cover it");
            covered = std::max(covered, shard.end);
        }
        if (covered != g.whole().end) refuse(g, "its shards do not cover it");
        for (std::size_t i = 0; i < g.members().size(); ++i) {
            const range kept = s.how == mode::scatter ? g.shards()[i] : g.whole();
            const bool keeps = s.how != mode::root || static_cast<int>(i) == g.root();
            if (keeps && !kept.empty()) made[at(g.members()[i])].push_back({kept, first, end, s.route});
        }
    }

    // Takes from a rank what it brings to a group, so that no two groups of a stage get the same.
    sum take(int rank, range part, int route) {
        std::vector<sum>& mine = has_[at(rank)];
        for (std::size_t i = 0; i < mine.size(); ++i) {
            const sum had = mine[i];
            if (part.begin < had.part.begin || part.end > had.part.end) continue;
            mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(i));
            const auto put_back = [&](range rest) {
                if (!rest.empty()) mine.push_back({rest, had.first, had.end, had.route});
            };
            put_back({had.part.begin, part.begin});
            put_back({part.end, had.part.end});
            return on(route, {part, had.first, had.end, had.route});
        }
        throw misfit{fmt::format("stage {}: rank {} is to bring elements {} to {}, which it has not", stage_ + 1, rank,
                                 part.begin, part.end - 1)};
    }

    // The root of the call, in the order of the stage's route; -1 if it has none.
    int root_of(const composed_stage& s) const {
        const int root = composition_.root;
        return root < 0 || s.route == 0 ? root : places_[at(s.route - 1)][at(root)];
    }

    // Puts a sum on a route. Its ranks must be consecutive in the order of that route as well.
    sum on(int route, sum s) const {
        if (s.route == route) return s;
        if (s.route != 0 || at(route) > places_.size())
            throw misfit{fmt::format("stage {}: elements {} to {} have taken another route", stage_ + 1, s.part.begin,
                                     s.part.end - 1)};
        const std::vector<int>& places = places_[at(route - 1)];
        const int first = places[at(s.first)];
        for (int r = s.first; r < s.end; ++r)
            if (places[at(r)] != first + r - s.first)
                throw misfit{fmt::format("route {}: ranks {} and {} have been summed up and do not stand side by side",
                                         route, s.first, r)};
        return {s.part, first, first + s.end - s.first, route};
    }

    // Finds who must have before the way down what owners get on it, from the innermost stage outwards: the root of the
    // group in which the owner is a member.
    void find_carriers() {
        std::vector<std::vector<owned*>> carried(at(composition_.ranks));
        for (owned& o : owners_)
            if (!o.part.empty()) carried[at(o.owners.front())].push_back(&o);
        for (const composed_stage& s : composition_.stages) {
            if (s.how != mode::root) continue;
            std::vector<std::vector<owned*>> after(carried.size());
            for (const group& g : s.groups)
                for (const int member : g.members())
                    std::erase_if(carried[at(member)], [&](owned* o) {
                        if (o->part.begin < g.whole().begin || o->part.end > g.whole().end) return false;
                        o->owners = {g.rank(g.root())};
                        after[at(o->owners.front())].push_back(o);
                        return true;
                    });
            for (std::size_t r = 0; r < after.size(); ++r)
                after[r].insert(after[r].end(), carried[r].begin(), carried[r].end());
            carried = std::move(after);
        }
    }

    // In the end the owners, and nobody else, have the sum of all ranks.
    void check_owners() {
        std::int64_t owned_parts = 0, had_parts = 0;
        for (const owned& o : owners_)
            for (const int rank : o.owners) {
                owned_parts += o.part.count();
                if (o.part.empty()) continue;
                const sum all = take(rank, o.part, o.route);
                if (all.first != 0 || all.end != composition_.ranks)
                    throw misfit{
                        fmt::format("rank {} ends with the sum of ranks {} to {} alone", rank, all.first, all.end - 1)};
                had_parts += o.part.count();
            }
        for (const std::vector<sum>& left : has_)
            for (const sum& s : left) had_parts += s.part.count();
        if (had_parts != owned_parts) throw misfit{"parts of the vector are left where nobody asks for them"};
    }

    [[noreturn]] void refuse(const group& g, const std::string& why) const {
        throw misfit{fmt::format("stage {}: the group of rank {} for elements {} to {}: {}", stage_ + 1,
                                 g.members().front(), g.whole().begin, g.whole().end - 1, why)};
    }

    const composition& composition_;
    std::vector<owned> owners_;             // after the way up
    std::vector<std::vector<sum>> has_;     // by rank
    std::vector<std::vector<int>> places_;  // by route and rank
    std::size_t stage_ = 0;
};

}  // namespace

std::optional<std::string> replay_groups(const composition& c, bool hands_down) {
    try {
        replay(c, hands_down).run();
    } catch (const misfit& f) {
        return f.text;
    }
    return {};
}

}  // namespace terrace::detail
