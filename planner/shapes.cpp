#include "planner/shapes.hpp"

#include <algorithm>
#include <utility>

#include "plan/whole_levels.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

// Returns the first and last level of each unit that may be a stage: a level, and the levels inside it that join
// nothing (every domain has one child). Outermost levels that join nothing belong to the last unit.
std::vector<std::pair<int, int>> units_of(const tree& t) {
    std::vector<std::pair<int, int>> units;
    int first = 0;
    for (int l = 0; l < t.depth(); ++l) {
        if (t.uniform_size(l) == 1) continue;
        units.emplace_back(first, l);
        first = l + 1;
    }
    if (units.empty()) return {{0, t.depth() - 1}};
    units.back().second = t.depth() - 1;
    return units;
}

class shape_list {
public:
    explicit shape_list(const hierarchy& machine)
        : tree_(machine.shape), units_(units_of(machine.shape)), torus_(machine.torus_level()) {}

    std::vector<shape> run() {
        for (const bool splits : {false, true})
            for (std::size_t groups = 1; groups <= units_.size(); ++groups) extend(0, groups, splits);
        if (found_.size() > policy.most_candidates) {
            found_.resize(policy.most_candidates);
            extend(0, units_.size(), false);
        }
        return std::move(found_);
    }

private:
    // Covers the units from `unit` on by so many groups. @param splits one of the groups is a level in two factors
    void extend(std::size_t unit, std::size_t groups, bool splits) {
        const std::size_t left = units_.size() - unit;
        if (left == 0 && groups == 0 && !splits) found_.push_back(current_);
        if (groups == 0 || groups > left || found_.size() > policy.most_candidates) return;
        for (std::size_t last = unit; last < units_.size(); ++last) {
            current_.push_back(whole_levels(tree_, units_[unit].first, units_[last].second));
            extend(last + 1, groups - 1, splits);
            current_.pop_back();
        }
        if (splits) split(unit, groups);
    }

    // Covers a level by two factors of its size, in both orders.
    void split(std::size_t unit, std::size_t groups) {
        const auto [first, last] = units_[unit];
        const int size = first == last && last < torus_ ? tree_.uniform_size(first).value_or(0) : 0;
        for (int a = 2; a * 2 <= size; ++a) {
            if (size % a != 0) continue;
            for (const int group : {a, size / a}) current_.push_back({.levels = {first}, .group = group});
            extend(unit + 1, groups - 1, false);
            current_.resize(current_.size() - 2);
        }
    }

    const tree& tree_;
    std::vector<std::pair<int, int>> units_;
    int torus_;  // levels from this level on are dimensions
    shape current_;
    std::vector<shape> found_;
};

}  // namespace

bool is_split(const shape& s, std::size_t number) {
    return std::ranges::count(s, s[number].levels, &stage::levels) > 1;
}

bool has_split(const shape& s) { return std::ranges::adjacent_find(s, {}, &stage::levels) != s.end(); }

std::vector<shape> shapes_of(const hierarchy& machine) { return shape_list(machine).run(); }

}  // namespace terrace::detail
