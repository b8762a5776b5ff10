#include "bench/discover/contradictions.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hosts.hpp"
#include "base/index.hpp"
#include "base/units.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double differs_inside = 0.5;      // relative difference of memory rates, which depend on the measuring code
constexpr double differs = 0.15;            // relative difference of other rates
constexpr double slows_down = 1.1;          // ratio of the children's rates to their link, above which the link shows
constexpr std::size_t most_sentences = 12;  // further differences are only counted

using members = std::set<int>;  // ranks of a domain, in the file's numbering

bool holds(const members& all, const members& some) {
    return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

members common(const members& a, const members& b) {
    members both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
    return both;
}

// Returns true if both have ranks in common, but neither contains the other.
bool cross(const members& a, const members& b) { return !common(a, b).empty() && !holds(a, b) && !holds(b, a); }

// The domains of a machine, in the file's numbering of ranks.
struct nesting {
    // @param places by rank of the machine, its rank in the file   @param levels number of levels to use
    nesting(const hierarchy& h, const std::vector<int>& places, int levels) : machine(h) {
        std::vector<members> below;
        for (const int place : places) below.push_back({place});
        for (int l = 0; l < levels; ++l) {
            std::vector<members>& of_level = domains.emplace_back(at(h.shape.domains(l)));
            for (int c = 0; c < h.shape.members(l); ++c) {
                const members& child = below[at(c)];
                const double rate = h.rate(l, c);
                const auto [known, is_new] = rates.try_emplace(child, rate);
                known->second = std::min(known->second, rate);
                of_level[at(h.shape.parent(l, c))].insert(child.begin(), child.end());
            }
            below = of_level;
        }
    }
    std::optional<double> rate(const members& m) const {
        const auto known = rates.find(m);
        return known == rates.end() ? std::nullopt : std::optional(known->second);
    }
    int depth() const noexcept { return static_cast<int>(domains.size()); }
    bool is_trivial(const members& m) const { return m.size() == 1 || static_cast<int>(m.size()) == machine.ranks(); }
    bool has(const members& m) const { return is_trivial(m) || rates.contains(m); }

    const hierarchy& machine;
    std::vector<std::vector<members>> domains;  // by level
    std::map<members, double> rates;            // link of a domain; the slowest if several levels have the domain [B/s]
};

class comparison {
public:
    comparison(const hierarchy& found, const std::vector<int>& places, const hierarchy& stated, int sure)
        : found_(found, places, sure),
          stated_(stated, numbers_below(stated.ranks()), stated.depth()),
          nodes_(stated.node_levels() - 1) {}

    std::vector<std::string> all() {
        for (int l = 0; l < stated_.machine.depth(); ++l) compare_links(l);
        for (int l = 0; l < found_.depth(); ++l) compare_groups(l);
        const bool all_sure = found_.depth() == found_.machine.depth();
        for (int l = std::max(nodes_, 0); all_sure && l + 1 < stated_.machine.depth(); ++l) find_missing(l);
        if (sentences_.size() > most_sentences) {
            const std::size_t more = sentences_.size() - most_sentences;
            sentences_.resize(most_sentences);
            say("and {} more", more);
        }
        return std::move(sentences_);
    }

private:
    template <class... Args>
    void say(fmt::format_string<Args...> text, Args&&... args) {
        sentences_.push_back(fmt::format(text, std::forward<Args>(args)...));
    }

    // Returns names of whole nodes, as "n[0-2]", else of ranks, as "rank[4-5]".
    std::string names(const members& m) const {
        const tree& shape = stated_.machine.shape;
        members nodes, of_nodes;
        for (const int r : m) nodes.insert(shape.domain_of(nodes_, r));
        std::vector<std::string> all;
        for (const int n : nodes) {
            for (int r = shape.first_rank(nodes_, n); r < shape.first_rank(nodes_, n + 1); ++r) of_nodes.insert(r);
            all.push_back(stated_.machine.hosts.empty() ? fmt::format("node{}", n) : stated_.machine.hosts[at(n)]);
        }
        if (of_nodes == m) return fold_hosts(all);
        all.clear();
        for (const int r : m) all.push_back(fmt::format("rank{}", r));
        return fold_hosts(all);
    }

    const members& stated_domain(int l, int domain) const { return stated_.domains[at(l)][at(domain)]; }
    members stated_child(int l, int child) const { return l == 0 ? members{child} : stated_domain(l - 1, child); }

    // Returns the total rate of a domain's children: measured rates if known, else those of the file.
    double of_children(int l, int domain) const {
        const tree& shape = stated_.machine.shape;
        double sum = 0;
        for (int child = shape.first_child(l, domain); child < shape.first_child(l, domain + 1); ++child)
            sum += found_.rate(stated_child(l, child)).value_or(stated_.machine.rate(l, child));
        return sum;
    }

    // Returns the rate that is measured if the link is as in the file: its siblings or its children may limit it.
    double shown_rate(int l, int child) const {
        const hierarchy& stated = stated_.machine;
        const double own = *stated_.rate(stated_child(l, child));
        if (l <= nodes_) return own;
        const int parent = stated_.machine.shape.parent(l, child), end = stated.shape.first_child(l, parent + 1);
        double siblings = 0;
        for (int other = stated.shape.first_child(l, parent); other < end; ++other)
            if (other != child) siblings += stated.rate(l, other);
        const bool of_several = l - 1 > nodes_ && stated.shape.children(l - 1, child) > 1;
        return std::min({own, siblings, of_several ? of_children(l - 1, child) : own});
    }

    void compare_links(int l) {
        const level& into = stated_.machine.levels[at(l)];
        const double most_off = between_nodes(into.medium) ? differs : differs_inside;
        const std::size_t before = sentences_.size();
        std::size_t links = 0;
        std::string as_all;
        for (int child = 0; child < stated_.machine.shape.members(l); ++child) {
            if (stated_.machine.shape.children(l, stated_.machine.shape.parent(l, child)) == 1)
                continue;  // the same domain as one level below
            const members of = stated_child(l, child);
            const std::optional<double> is = found_.rate(of);
            if (!is) continue;
            const double was = shown_rate(l, child);
            ++links;
            if (*is >= (1 - most_off) * was && *is * (1 - most_off) <= was) continue;
            const std::string rates = fmt::format("{} by the file, measured {}, {:.2g} times as fast",
                                                  format_bandwidth(was), format_bandwidth(*is), *is / was);
            say("link of {} into \"{}\": {}", names(of), into.name, rates);
            as_all = fmt::format("links into \"{}\": {}", into.name, rates);
        }
        if (links > 1 && sentences_.size() - before == links) {  // all links differ: one sentence
            sentences_.resize(before);
            say("{}", as_all);
        }
    }

    // Reports measured groups that the file lacks.
    void compare_groups(int l) {
        std::map<members, int> groups;  // in the order of the file's ranks
        for (int d = 0; d < found_.machine.shape.domains(l); ++d) groups[found_.domains[at(l)][at(d)]] = d;
        std::vector<std::string> unknown;
        for (const auto& [group, d] : groups) {
            if (stated_.has(group) || !unknown_groups_.insert(group).second) continue;
            if (const int level = crossed(group); level >= 0) misplaced(group, level);
            else if (!is_the_rest(l, d)) unknown.push_back(names(group));
        }
        if (!unknown.empty())
            say("share a link as measured, level \"{}\": {}; the file has no such group{}",
                found_.machine.levels[at(l)].name, fmt::join(unknown, " and "), unknown.size() > 1 ? "s" : "");
    }

    // Returns the innermost level of the file with a domain that the group crosses, or -1.
    int crossed(const members& group) const {
        for (std::size_t l = 0; l < stated_.domains.size(); ++l)
            if (std::ranges::any_of(stated_.domains[l], [&](const members& d) { return cross(group, d); }))
                return static_cast<int>(l);
        return -1;
    }

    // Returns true if the only sibling is a group of the file: both links carry the same streams, so both seem groups.
    bool is_the_rest(int l, int domain) const {
        const tree& shape = found_.machine.shape;
        if (l + 1 >= found_.depth()) return false;
        const int parent = shape.parent(l + 1, domain), first = shape.first_child(l + 1, parent);
        return shape.children(l + 1, parent) == 2 &&
               stated_.has(found_.domains[at(l)][at(domain == first ? first + 1 : first)]);
    }

    // Reports ranks of a measured group that the file has in another domain than most of the group.
    void misplaced(const members& group, int l) {
        const auto domains = static_cast<int>(stated_.domains[at(l)].size());
        int home = -1;
        std::size_t most = 0;
        for (int d = 0; d < domains; ++d) {
            // In a tie, a domain that is not yet the home of another group is preferred.
            const std::size_t n = 2 * common(group, stated_domain(l, d)).size() + (homes_.contains({l, d}) ? 0 : 1);
            if (n <= most || n < 2) continue;
            most = n;
            home = d;
        }
        homes_.insert({l, home});
        const members of_home = common(group, stated_domain(l, home));
        for (int d = 0; d < domains; ++d)
            if (const members some = common(group, stated_domain(l, d)); d != home && !some.empty())
                say("{} is in \"{}\" {} by the file, and measured in {}, with {}", names(some),
                    stated_.machine.levels[at(l)].name, d, home, names(of_home));
    }

    // Reports groups of the file whose link is slow enough to show, but does not.
    void find_missing(int l) {
        std::vector<std::string> missing;
        for (int d = 0; d < stated_.machine.shape.domains(l); ++d) {
            const members& group = stated_domain(l, d);
            if (found_.has(group) || of_children(l, d) <= slows_down * shown_rate(l + 1, d)) continue;
            const auto crosses = [&](const members& other) { return cross(group, other); };
            if (std::none_of(unknown_groups_.begin(), unknown_groups_.end(), crosses)) missing.push_back(names(group));
        }
        if (!missing.empty())
            say("share a link by the file, level \"{}\": {}; measurements do not show it",
                stated_.machine.levels[at(l)].name, fmt::join(missing, " and "));
    }

    nesting found_, stated_;
    int nodes_;                            // level of nodes in the file; -1: each rank is a node
    std::set<members> unknown_groups_;     // measured groups that the file lacks
    std::set<std::pair<int, int>> homes_;  // homes of misplaced groups: level and domain of the file
    std::vector<std::string> sentences_;
};

}  // namespace

std::vector<std::string> contradictions(const hierarchy& found, const std::vector<int>& ranks, const hierarchy& stated,
                                        int sure) {
    return comparison(found, ranks, stated, sure).all();
}

}  // namespace terrace::detail::bench
