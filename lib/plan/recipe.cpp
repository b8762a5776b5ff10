#include "plan/recipe.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/units.hpp"
#include "plan/routes.hpp"

namespace terrace {

namespace {

constexpr std::array<std::string_view, 5> collective_names{"allreduce", "reduce_scatter", "allgather", "broadcast",
                                                           "reduce"};
constexpr std::array<std::string_view, 3> mode_names{"scatter", "root", "replicate"};
constexpr std::array<std::string_view, 2> carrier_names{"nccl", "mpi"};

template <class Enum, std::size_t N>
std::optional<Enum> find_name(const std::array<std::string_view, N>& names, std::string_view text) noexcept {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) return {};
    return static_cast<Enum>(found - names.begin());
}

std::string level_names(const hierarchy& machine, const stage& s) {
    std::string names;
    for (int l : s.levels) {
        if (!names.empty()) names += '+';
        const bool known = l >= 0 && l < machine.depth();
        names += known ? machine.levels[static_cast<std::size_t>(l)].name : fmt::format("level {}", l);
    }
    return names;
}

// Sizes of the groups of consecutive children that a stage makes: the domains of its last level, or pieces of them.
class grouping {
public:
    explicit grouping(const hierarchy& machine) : machine_(machine) {}

    // Appends the stage's domains, in terms of the previous stage's.
    void add(const stage& s, int number) {
        const auto bad = [&](const std::string& why) {
            throw stage_error(number, fmt::format("stages[{}] ({}): {}", number, level_names(machine_, s), why));
        };
        if (s.levels.empty()) bad("names no level");
        // A level that was only partly covered goes on with the next part of it.
        if (part_ > 1 && s.levels.front() != level_)
            bad(fmt::format("level {} has {} children a domain left to combine first", name(level_), part_));
        for (int l : s.levels) {
            if (l < level_) bad(fmt::format("level {} is covered already; leave it out here", name(l)));
            if (l > level_)
                bad(
                    fmt::format("level {} is left out: levels are covered from the innermost outwards, so cover it "
                                "before {}",
                                name(level_), name(l)));
            ++level_;
        }
        const int last = level_ - 1;
        const bool split = s.levels.size() == 1 && s.group > 0 &&
                           (part_ > 1 || machine_.shape.uniform_size(last).value_or(s.group) != s.group);
        if (split) split_level(s, last, bad);
        else whole_levels(s, last, bad);
    }

    // Of the stage that was added last.
    void check_weights(const stage& s, int number) const {
        if (s.weights.empty()) return;
        const std::vector<int>& sizes = children_.back();
        const auto bad = [&](const std::string& why) {
            throw stage_error(number, fmt::format("stages[{}]: {}", number, why));
        };
        if (s.how != mode::scatter) bad(fmt::format("weights are for mode scatter, not {}", to_string(s.how)));
        if (sizes.size() != 1) bad("weights are for the outermost stage, that of the whole machine");
        if (s.weights.size() != static_cast<std::size_t>(sizes.front()))
            bad(fmt::format("{} weights for a group of {}", s.weights.size(), sizes.front()));
        if (std::all_of(s.weights.begin(), s.weights.end(), [](int w) { return w == 0; }))
            bad("all weights are 0; somebody must take the vector");
    }

    tree finish() {
        if (level_ < machine_.depth())
            throw plan_error(fmt::format("stages: no stage covers {}level {}; add one behind the others",
                                         part_ > 1 ? "all of " : "", name(level_)));
        return tree(std::move(children_));
    }

private:
    std::string name(int l) const { return machine_.levels[static_cast<std::size_t>(l)].name; }

    template <class Bad>
    void split_level(const stage& s, int l, Bad&& bad) {
        const int size = part_ > 1 ? part_ : *machine_.shape.uniform_size(l);
        if (size % s.group != 0 || s.group == 1)
            bad(fmt::format("group {} does not divide the {} children of each domain that are left of level {}",
                            s.group, size, name(l)));
        part_ = size / s.group;
        if (part_ > 1) level_ = l;  // more to come
        push(std::vector<int>(static_cast<std::size_t>(domains_ / s.group), s.group));
    }

    template <class Bad>
    void whole_levels(const stage& s, int last, Bad&& bad) {
        // Children of each domain of the last level, in terms of the domains so far: those whose ranks it holds.
        const int first = s.levels.front();
        if (part_ > 1)
            bad(fmt::format(
                "{} children a domain are left of level {}: combine them first, in a stage of that level alone", part_,
                name(first)));
        std::vector<int> sizes;
        for (int d = 0; d < machine_.shape.domains(last); ++d) {
            int low = d, high = d + 1;
            for (int l = last; l >= first; --l) {
                low = machine_.shape.first_child(l, low);
                high = machine_.shape.first_child(l, high);
            }
            sizes.push_back(high - low);
        }
        const bool same = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
        const int expected = same ? sizes.front() : 0;
        if (same && s.group == 0) bad(fmt::format("all groups have the same size; write group: {}", expected));
        if (s.group != expected)
            bad(same ? fmt::format("group is {}, but the topology makes groups of {}", s.group, expected)
                     : fmt::format("group is {}, but the groups differ in size ({} to {}): write {}..{}", s.group,
                                   *std::min_element(sizes.begin(), sizes.end()),
                                   *std::max_element(sizes.begin(), sizes.end()),
                                   *std::min_element(sizes.begin(), sizes.end()),
                                   *std::max_element(sizes.begin(), sizes.end())));
        push(std::move(sizes));
    }

    void push(std::vector<int> sizes) {
        domains_ = static_cast<int>(sizes.size());
        children_.push_back(std::move(sizes));
    }

    const hierarchy& machine_;
    int level_ = 0;                   // the level the next stage must begin with
    int part_ = 1;                    // children of each domain of a partly covered level still to combine
    int domains_ = machine_.ranks();  // so far
    std::vector<std::vector<int>> children_;
};

}  // namespace

std::string_view to_string(collective c) noexcept { return collective_names[static_cast<std::size_t>(c)]; }
std::optional<collective> parse_collective(std::string_view text) noexcept {
    return find_name<collective>(collective_names, text);
}
std::string_view to_string(mode m) noexcept { return mode_names[static_cast<std::size_t>(m)]; }
std::optional<mode> parse_mode(std::string_view text) noexcept { return find_name<mode>(mode_names, text); }
std::string_view to_string(carrier c) noexcept { return carrier_names[static_cast<std::size_t>(c)]; }
std::optional<carrier> parse_carrier(std::string_view text) noexcept { return find_name<carrier>(carrier_names, text); }

const rule& recipe::choose(collective c, std::int64_t bytes) const {
    const auto found = rules.find(c);
    if (found == rules.end())
        throw plan_error(fmt::format("the plan for {} has no rules for {}; plan again", name, to_string(c)));
    const std::vector<rule>& list = found->second;
    return *std::find_if(list.begin(), list.end(), [&](const rule& r) { return bytes <= r.up_to; });
}

tree stage_tree(const hierarchy& machine, std::span<const stage> stages) {
    grouping groups(machine);
    int number = 0;
    for (const stage& s : stages) {
        groups.add(s, number);
        groups.check_weights(s, number++);
    }
    tree made = groups.finish();
    routes_of(machine, stages);
    return made;
}

std::string describe(const hierarchy& machine, std::span<const stage> stages) {
    const tree shape = stage_tree(machine, stages);
    std::string text;
    int number = 0;
    for (const stage& s : stages) {
        const auto [low, high] = std::minmax_element(shape.children()[static_cast<std::size_t>(number)].begin(),
                                                     shape.children()[static_cast<std::size_t>(number)].end());
        if (!text.empty()) text += " > ";
        text += *low == *high ? fmt::format("{}:{} ", level_names(machine, s), *low)
                              : fmt::format("{}:{}..{} ", level_names(machine, s), *low, *high);
        text += fmt::format("{} {}", to_string(s.how), s.algorithm);
        if (!s.weights.empty()) text += fmt::format(" {}", fmt::join(s.weights, ":"));
        if (s.over != carrier::nccl) text += fmt::format(" over {}", to_string(s.over));
        if (s.first > 0) text += fmt::format(" first {}", s.first);
        ++number;
    }
    return text;
}

}  // namespace terrace
