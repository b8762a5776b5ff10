#include "bench/discover/contradictions.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double differs_inside = 0.5;      // a rate of memory, which is as fast as who measures it, from another
constexpr double differs = 0.15;            // a rate from another
constexpr std::size_t most_sentences = 12;  // sentences

class comparison {
public:
    comparison(const hierarchy& found, const std::vector<int>& places, const hierarchy& said)
        : found_(found), places_(places), said_(said) {}

    std::vector<std::string> all() {
        const std::vector<std::set<std::set<int>>> found = groups(found_, &places_), said = groups(said_, nullptr);
        std::vector<int> matched(at(said_.depth()), -1);
        for (int s = 0, next = 0; s < said_.depth(); ++s)
            for (int f = next; f < found_.depth(); ++f)
                if (found[at(f)] == said[at(s)]) {
                    matched[at(s)] = f;
                    next = f + 1;
                    break;
                }
        for (int s = 0; s < said_.depth(); ++s) {
            if (matched[at(s)] >= 0) compare_rates(matched[at(s)], s);
            else if (!is_trivial(said[at(s)])) missing(s, said[at(s)], found);
        }
        for (int f = 0; f < found_.depth(); ++f)
            if (std::find(matched.begin(), matched.end(), f) == matched.end() && !is_trivial(found[at(f)]) &&
                !is_near_a_level(found[at(f)], said))
                say("{} groups that share links are measured, level \"{}\"; the file has no such level",
                    found_.shape.domains(f), found_.levels[at(f)].name);
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

    // By level the domains, as ranks of the file.
    static std::vector<std::set<std::set<int>>> groups(const hierarchy& h, const std::vector<int>* places) {
        std::vector<std::set<std::set<int>>> all;
        for (int l = 0; l < h.depth(); ++l) {
            std::vector<std::set<int>> domains(at(h.shape.domains(l)));
            for (int r = 0; r < h.ranks(); ++r)
                domains[at(h.shape.domain_of(l, r))].insert(places == nullptr ? r : (*places)[at(r)]);
            all.emplace_back(domains.begin(), domains.end());
        }
        return all;
    }

    bool is_trivial(const std::set<std::set<int>>& level) const {
        return level.size() == 1 || level.size() == at(said_.ranks());
    }

    // Whether most of its groups are those of a level: it is told with that one.
    static int common(const std::set<std::set<int>>& a, const std::set<std::set<int>>& b) {
        int pairs = 0;
        for (const std::set<int>& x : a)
            for (const std::set<int>& y : b) {
                std::vector<int> both;
                std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
                pairs = std::max(pairs, 0) + (2 * both.size() > std::max(x.size(), y.size()));
            }
        return pairs;
    }
    static bool is_near(const std::set<std::set<int>>& a, const std::set<std::set<int>>& b) {
        return 2 * common(a, b) >= static_cast<int>(std::max(a.size(), b.size()));
    }
    bool is_near_a_level(const std::set<std::set<int>>& a, const std::vector<std::set<std::set<int>>>& levels) const {
        return std::any_of(levels.begin(), levels.end(),
                           [&](const auto& l) { return !is_trivial(l) && is_near(a, l); });
    }

    std::string node_text(int place) const {
        const int l = said_.node_levels() - 1;
        const int node = said_.shape.domain_of(l, place);
        return said_.hosts.empty() ? fmt::format("node {}", node) : said_.hosts[at(node)];
    }

    // A level of the file that measurements do not show as it is.
    void missing(int s, const std::set<std::set<int>>& said, const std::vector<std::set<std::set<int>>>& found) {
        const level& l = said_.levels[at(s)];
        const auto near =
            std::find_if(found.begin(), found.end(), [&](const auto& f) { return !is_trivial(f) && is_near(said, f); });
        if (near == found.end())
            return say("level \"{}\": measurements do not show it; no probe differs by 10 % between its domains",
                       l.name);
        // Who is elsewhere: ranks whose group mostly belongs to another domain.
        std::set<std::string> told;
        for (int r = 0; r < said_.ranks(); ++r) {
            const auto holds = [&](const std::set<int>& g) { return g.contains(r); };
            const std::set<int>& is = *std::find_if(near->begin(), near->end(), holds);
            std::map<int, int> votes;
            for (const int fellow : is)
                if (said_.shape.domain_of(said_.node_levels() - 1, fellow) !=
                    said_.shape.domain_of(said_.node_levels() - 1, r))
                    ++votes[said_.shape.domain_of(s, fellow)];
            const int own = said_.shape.domain_of(s, r);
            if (votes.empty()) continue;
            const auto best = std::max_element(votes.begin(), votes.end(),
                                               [](const auto& a, const auto& b) { return a.second < b.second; });
            if (best->first != own && votes[own] < best->second)
                told.insert(fmt::format("{} is in \"{}\" {} by the file, and measured in {}", node_text(r), l.name, own,
                                        best->first));
        }
        if (told.empty()) say("level \"{}\": measurements group its domains in another way", l.name);
        for (const std::string& each : told) say("{}", each);
    }

    void compare_rates(int f, int s) {
        std::map<std::pair<int, int>, std::vector<int>> children;  // links: of the file and found
        for (int place = 0; place < found_.ranks(); ++place)
            children[{said_.shape.domain_of(s - 1, places_[at(place)]), found_.shape.domain_of(f - 1, place)}]
                .push_back(places_[at(place)]);
        std::map<int, int> seen;
        int off = 0;
        double said_rate = 0, found_rate = 0;
        const std::size_t before = sentences_.size();
        for (const auto& [child, ranks] : children) {
            if (seen[child.first]++ > 0) continue;
            const double was = said_.rate(s, child.first), is = found_.rate(f, child.second);
            const double most_off = between_nodes(said_.levels[at(s)].medium) ? differs : differs_inside;
            if (is >= (1 - most_off) * was && is * (1 - most_off) <= was) continue;
            ++off;
            said_rate = was;
            found_rate = is;
            say("link of {} into \"{}\": {} by the file, measured {}, {:.2g} times as fast",
                s == said_.node_levels() ? node_text(ranks.front()) : fmt::format("domain {}", child.first),
                said_.levels[at(s)].name, format_bandwidth(was), format_bandwidth(is), is / was);
        }
        if (off > 1 && off == static_cast<int>(seen.size())) {  // all alike: one sentence
            sentences_.resize(before);
            say("links into \"{}\": {} by the file, measured {}, {:.2g} times as fast", said_.levels[at(s)].name,
                format_bandwidth(said_rate), format_bandwidth(found_rate), found_rate / said_rate);
        }
    }

    const hierarchy& found_;
    const std::vector<int>& places_;
    const hierarchy& said_;
    std::vector<std::string> sentences_;
};

}  // namespace

std::vector<std::string> contradictions(const hierarchy& found, const std::vector<int>& ranks, const hierarchy& said) {
    return comparison(found, ranks, said).all();
}

}  // namespace terrace::detail::bench
