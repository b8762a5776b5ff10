// The hierarchy that the stages of a rule make of a machine.

#include <algorithm>

#include <fmt/format.h>

#include "base/index.hpp"
#include "plan/level_names.hpp"
#include "plan/plan_data.hpp"
#include "plan/routes.hpp"
#include "plan/whole_levels.hpp"

namespace terrace::detail {

namespace {

// Returns the size that all have in common; 0 if they differ.
int common_size(const std::vector<int>& sizes) {
    const bool same = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
    return same ? sizes.front() : 0;
}

// Follows stages outwards. Each makes groups of consecutive children: the domains of its last level, or parts of them.
class grouping {
public:
    explicit grouping(const hierarchy& machine) : machine_(machine) {}

    // Appends the stage's groups; their sizes count groups of the previous stage.
    void add(const stage& s, int number) {
        const auto bad = [&](const std::string& why) {
            throw stage_error(number, fmt::format("stages[{}] ({}): {}", number, level_names(machine_, s), why));
        };
        if (s.levels.empty()) bad("names no level");
        // After a part of a level the next stage covers the next part of the same level.
        if (part_ > 1 && s.levels.front() != level_)
            bad(fmt::format("each domain of level {} still has {} children to combine; cover them first", name(level_),
                            part_));
        for (int l : s.levels) {
            if (l < level_) bad(fmt::format("level {} is covered already; remove it here", name(l)));
            if (l > level_)
                bad(
                    fmt::format("level {} is left out; stages cover levels from the innermost outwards, so cover {} "
                                "before {}",
                                name(level_), name(level_), name(l)));
            ++level_;
        }
        const int last = level_ - 1;
        const bool split = s.levels.size() == 1 && s.group > 0 &&
                           (part_ > 1 || machine_.shape.uniform_size(last).value_or(s.group) != s.group);
        if (split) split_level(s, last, bad);
        else whole_levels(s, last, bad);
    }

    tree finish() {
        if (level_ < machine_.depth())
            throw plan_error(fmt::format("stages: no stage covers {}level {}; add one after the others",
                                         part_ > 1 ? "all of " : "", name(level_)));
        return tree(std::move(children_));
    }

private:
    std::string name(int l) const { return machine_.levels[static_cast<std::size_t>(l)].name; }

    void split_level(const stage& s, int l, const auto& bad) {
        const int size = part_ > 1 ? part_ : *machine_.shape.uniform_size(l);
        if (size % s.group != 0 || s.group == 1)
            bad(fmt::format("group {} does not divide the {} children that each domain of level {} still has", s.group,
                            size, name(l)));
        part_ = size / s.group;
        if (part_ > 1) level_ = l;  // the level is not covered yet
        push(std::vector<int>(static_cast<std::size_t>(domains_ / s.group), s.group));
    }

    void whole_levels(const stage& s, int last, const auto& bad) {
        const int first = s.levels.front();
        if (part_ > 1)
            bad(
                fmt::format("each domain of level {} still has {} children; combine them first, in a stage of that "
                            "level alone",
                            name(first), part_));
        std::vector<int> sizes = sizes_over(machine_.shape, first, last);
        const int expected = common_size(sizes);
        const bool same = expected > 0;
        if (same && s.group == 0) bad(fmt::format("all groups have the same size; write group: {}", expected));
        if (s.group != expected)
            bad(same ? fmt::format("group is {}, but the topology makes groups of {}", s.group, expected)
                     : fmt::format("group is {}, but the groups differ in size ({} to {}): write {}", s.group,
                                   std::ranges::min(sizes), std::ranges::max(sizes), group_text(sizes)));
        push(std::move(sizes));
    }

    void push(std::vector<int> sizes) {
        domains_ = static_cast<int>(sizes.size());
        children_.push_back(std::move(sizes));
    }

    const hierarchy& machine_;
    int level_ = 0;                   // level that the next stage must begin with
    int part_ = 1;                    // children that each domain of a partly covered level still has
    int domains_ = machine_.ranks();  // number of domains so far
    std::vector<std::vector<int>> children_;
};

[[noreturn]] void refuse(int number, const std::string& why) {
    throw stage_error(number, fmt::format("stages[{}]: {}", number, why));
}

void check_shares(const stage& s, const tree& shape, int number) {
    if (s.shares.empty()) return;
    if (s.how != mode::scatter) refuse(number, fmt::format("shares require mode scatter, not {}", to_string(s.how)));
    for (int domain = 0; domain < shape.domains(number); ++domain) {
        const int size = shape.children(number, domain);
        if (!has_shares_by_domain(s, shape, number) && s.shares.size() != at(size))
            refuse(number, fmt::format("{} shares for a group of {}, or for all {} members of groups", s.shares.size(),
                                       size, shape.members(number)));
        if (std::ranges::count(shares_of(s, shape, number, domain), 0) == size)
            refuse(number, "all shares of a group are 0; at least one must be positive");
    }
}

// All ranks get the same bits only if all domains round the same blocks of the result.
void check_wire(std::span<const stage> stages, const tree& shape, int number) {
    const stage& s = stages[at(number)];
    if (s.wire == wire_type::exact) return;
    const auto bad = [&](const std::string& why) { refuse(number, fmt::format("wire {} {}", to_string(s.wire), why)); };
    if (s.how != mode::scatter) bad(fmt::format("requires mode scatter, not {}", to_string(s.how)));
    if (!s.sends() || s.provider != provider::messages) bad("requires messages of an algorithm");
    if (s.route_share > 0 || !s.shares.empty()) bad("goes with neither shares nor route_share; remove them");
    for (int l = 0; l <= number && shape.domains(number) > 1; ++l)
        if (!shape.uniform_size(l) || has_shares_by_domain(stages[at(l)], shape, l))
            bad("requires groups of one size and equal shares, there and further inside; leave it to the outermost "
                "stage");
}

}  // namespace

std::vector<int> sizes_over(const tree& t, int first, int last) {
    std::vector<int> sizes;
    for (int d = 0; d < t.domains(last); ++d) {
        int low = d, high = d + 1;
        for (int l = last; l >= first; --l) low = t.first_child(l, low), high = t.first_child(l, high);
        sizes.push_back(high - low);
    }
    return sizes;
}

stage whole_levels(const tree& t, int first, int last) {
    stage s{.levels = {}, .group = common_size(sizes_over(t, first, last))};
    for (int l = first; l <= last; ++l) s.levels.push_back(l);
    return s;
}

tree stage_tree(const hierarchy& machine, std::span<const stage> stages) {
    grouping groups(machine);
    int number = 0;
    for (const stage& s : stages) {
        if (s.sends() && follows_buffers(s.provider))
            refuse(number,
                   fmt::format("provider {} carries no messages of algorithm {}; remove the provider or the algorithm",
                               to_string(s.provider), s.algorithm));
        groups.add(s, number++);
    }
    tree made = groups.finish();
    for (int n = 0; n < number; ++n) {
        check_shares(stages[at(n)], made, n);
        check_wire(stages, made, n);
    }
    routes_of(machine, stages);
    return made;
}

}  // namespace terrace::detail
