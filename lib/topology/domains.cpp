#include "topology/domains.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hosts.hpp"
#include "base/index.hpp"
#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"

namespace terrace::detail {

namespace {

// Appends `times` copies of the elements from `first` on.
template <class T>
void repeat(std::vector<T>& all, std::size_t first, int times) {
    const std::size_t length = all.size() - first;
    all.reserve(all.size() + length * at(times));
    for (std::size_t i = 0; i < length * at(times); ++i) all.push_back(all[first + i]);
}

// Refuses keys of a level whose values `domains:` gives.
void check_levels(const std::vector<document>& levels) {
    for (const document& l : levels) {
        for (const char* key : {"size", "names", "hosts", "links"})
            if (l.has(key))
                l.at(key).fail(fmt::format("domains: says how the machine is built; leave {} out here", key));
        if (l.has("bandwidth") && l.at("bandwidth").is_sequence())
            l.at("bandwidth").fail("domains that differ have a bandwidth of their own; write that of the others here");
    }
}

class domain_reader {
public:
    domain_reader(const document& map, std::span<const std::string> types)
        : types_(types),
          levels_(map.at("levels").items()),
          whole_(map.at("domains")),
          innermost_(types.empty() ? 0 : -1) {
        check_levels(levels_);
        hierarchy& h = made_.machine;
        h.levels = read_levels(map.at("levels"));
        h.processors = read_processors(map);
        rows_.resize(h.levels.size());
        names_.resize(h.levels.size());
        while (node_ + 1 < depth() && !between_nodes(h.levels[at(node_ + 1)].medium)) ++node_;
        if (!types.empty() && node_ >= 0)
            map.at("levels").items().front().at("fabric").fail(fmt::format(
                "level \"{}\" ({}) lies inside a node, which nodes: describes; list only infiniband and ethernet "
                "levels",
                h.levels.front().name, to_string(h.levels.front().medium)));
        if (depth() - 1 == innermost_) whole_.fail("one level has no domains to write out; give it a size");
    }

    written_out read() {
        hierarchy& h = made_.machine;
        children(whole_, depth() - 1);
        std::vector<std::vector<int>> sizes;
        for (int l = 0; l < depth(); ++l) {
            row& r = rows_[at(l)];
            expect_all(r.names.size(), r.sizes.size(), h.levels[at(l)].name);
            finish(h.levels[at(l)], r);
            sizes.push_back(std::move(r.sizes));
        }
        h.shape = tree(std::move(sizes));
        expect_all(h.hosts.size(), h.node_sizes().size(), "node");
        read_level_nics(levels_, h, !types_.empty());
        return std::move(made_);
    }

private:
    // All domains of a level, in order.
    struct row {
        std::vector<int> sizes;                                                  // number of children, by domain
        std::vector<std::string> names;                                          // of the domains
        std::vector<double> rates;                                               // of the links of all children [B/s]
        double shortest = std::numeric_limits<double>::infinity(), longest = 0;  // latencies of these links [s]
        bool usual_rate = false, usual_latency = false;                          // some child has the level's value
    };
    struct lengths {
        std::size_t sizes, names, rates;
    };

    int depth() const { return static_cast<int>(made_.machine.levels.size()); }
    std::string_view name_of(int l) const {
        return l < 0 ? "node" : std::string_view(made_.machine.levels[at(l)].name);
    }

    // Reads the domains inside one domain of level l.
    void children(const document& list, int l) {
        const std::vector<document> items = list.items();
        if (items.empty()) list.fail(fmt::format("a domain of level \"{}\" is empty", name_of(l)));
        int count = 0;
        for (const document& item : items) count += domain(item, l - 1);
        rows_[at(l)].sizes.push_back(count);
    }

    // Reads a domain of level l, or a node (l = -1), and adds as many copies as its count requires. Returns the count.
    int domain(const document& item, int l) {
        check_form(item, l);
        const std::int64_t had_ranks = ranks_;
        const std::size_t had_names = given_names_, had_nodes = made_.node_type.size();
        std::vector<lengths> had;
        for (int i = 0; i <= l + 1; ++i)
            had.push_back({rows_[at(i)].sizes.size(), rows_[at(i)].names.size(), rows_[at(i)].rates.size()});

        if (item.is_map() && item.has("name")) add_name(item.at("name"), l);
        add_link(item, rows_[at(l + 1)], l + 1);
        if (l > innermost_) children(item.at("domains"), l);
        else if (types_.empty()) rows_[0].sizes.push_back(ranks_of(item));
        else made_.node_type.push_back(type_of(item));
        if (l == innermost_) ranks_ += types_.empty() ? rows_[0].sizes.back() : 1;

        const int count = count_of(item, l);
        if (had_ranks + (ranks_ - had_ranks) * count > max_ranks)
            item.fail(fmt::format("more than {} ranks", max_ranks));
        if (count > 1 && given_names_ != had_names)
            item.fail(
                "these are several, and would all have the names in here; write them out one by one, or leave the "
                "names out");
        ranks_ += (ranks_ - had_ranks) * (count - 1);
        repeat(made_.node_type, had_nodes, count - 1);
        for (int i = 0; i <= l + 1; ++i) {
            repeat(rows_[at(i)].sizes, had[at(i)].sizes, count - 1);
            repeat(rows_[at(i)].rates, had[at(i)].rates, count - 1);
        }
        if (item.is_map() && item.has("hosts")) add_hosts(item.at("hosts"));
        return count;
    }

    void check_form(const document& item, int l) const {
        const std::string_view inside = l > innermost_ ? "domains" : types_.empty() ? "ranks" : "node";
        if (item.is_scalar() && l == innermost_) return;
        if (!item.is_map())
            item.fail(
                fmt::format("expected a {} with {}:; domains nest as levels do ({})", name_of(l), inside, depth()));
        item.allow_only({"name", inside, "bandwidth", "latency", "count", "hosts"});
        if (l > innermost_ && !item.has("domains"))
            item.fail(fmt::format("a domain of level \"{}\" has domains: inside it; if it is only one, [...] of that",
                                  name_of(l)));
        if ((l < 0 || l == node_) && item.has("name"))
            item.at("name").fail("a node's name is that of its host; write hosts:");
        const int of_hosts = std::max(node_, innermost_);
        if (item.has("hosts") && l != of_hosts)
            item.at("hosts").fail(fmt::format(
                "hosts name nodes; move them to what is inside, or outside, at level \"{}\"", name_of(of_hosts)));
    }

    void add_name(const document& entry, int l) {
        const std::vector<std::string> names = read_names(entry);
        if (names.size() != 1) entry.fail("a name of one domain, not a list");
        if (!names_[at(l)].insert(names.front()).second)
            entry.fail(
                fmt::format("two domains of level \"{}\" are named \"{}\"; rename one", name_of(l), names.front()));
        rows_[at(l)].names.push_back(names.front());
        ++given_names_;
    }

    // Adds the link of a child into level l.
    void add_link(const document& item, row& r, int l) {
        const bool rate = item.is_map() && item.has("bandwidth"), latency = item.is_map() && item.has("latency");
        r.rates.push_back(rate ? read_bandwidth(item.at("bandwidth")) : made_.machine.levels[at(l)].bandwidth);
        r.usual_rate |= !rate;
        r.usual_latency |= !latency;
        const double time = latency ? read_latency(item.at("latency")) : made_.machine.levels[at(l)].latency;
        r.shortest = std::min(r.shortest, time);
        r.longest = std::max(r.longest, time);
    }

    int ranks_of(const document& item) const {
        if (item.is_scalar()) return static_cast<int>(item.integer(1, max_ranks));
        // If each rank is a node, the host names give the number of ranks.
        if (node_ < 0 && item.has("hosts") && !item.has("ranks"))
            return static_cast<int>(read_names(item.at("hosts")).size());
        return static_cast<int>(item.at("ranks").integer(1, max_ranks));
    }

    int type_of(const document& item) const {
        if (item.is_map() && !item.has("node") && types_.size() == 1) return 0;
        const document name = item.is_map() ? item.at("node") : item;
        const auto found = std::find(types_.begin(), types_.end(), name.text());
        if (found == types_.end())
            name.fail(fmt::format("no node type is named \"{}\"; these are: {}", name.text(), fmt::join(types_, ", ")));
        return static_cast<int>(found - types_.begin());
    }

    int count_of(const document& item, int l) const {
        if (!item.is_map()) return 1;
        if (item.has("count") && item.has("hosts"))
            item.at("count").fail("hosts say how many there are; leave count out");
        if (item.has("count")) return static_cast<int>(item.at("count").integer(1, max_ranks));
        if (!item.has("hosts")) return 1;
        const std::size_t hosts = read_names(item.at("hosts")).size();
        if (l == node_) return static_cast<int>(hosts);
        if (hosts != at(rows_[0].sizes.back()))
            item.at("hosts").fail(
                fmt::format("{} host names for {} nodes; name each once", hosts, rows_[0].sizes.back()));
        return 1;
    }

    void add_hosts(const document& list) {
        std::vector<std::string>& hosts = made_.machine.hosts;
        for (std::string& name : read_names(list)) {
            if (!seen_hosts_.insert(name).second) list.fail(fmt::format("host \"{}\" is there twice", name));
            if (hosts.size() == max_hosts) list.fail(fmt::format("more than {} host names", max_hosts));
            hosts.push_back(std::move(name));
            ++given_names_;
        }
    }

    void expect_all(std::size_t named, std::size_t all, std::string_view what) const {
        if (named != 0 && named != all)
            whole_.fail(fmt::format("{} of {} domains of level \"{}\" have names; name all of them, or none", named,
                                    all, what));
    }

    // Sets the names and rates of a level from its row. The longest latency becomes that of all links.
    void finish(level& l, row& r) {
        l.names = std::move(r.names);
        if (r.rates.empty()) return;  // the children are ranks
        l.bandwidth_assumed &= r.usual_rate;
        l.latency_assumed &= r.usual_latency;
        l.latency = r.longest;
        if (r.shortest < r.longest)
            made_.notes.push_back(
                fmt::format("links into level {} differ in latency; the longest, {}, is taken for all", l.name,
                            format_duration(l.latency)));
        l = normalised(with_rates(std::move(l), std::move(r.rates)));
    }

    std::span<const std::string> types_;
    std::vector<document> levels_;
    document whole_;
    int innermost_;  // level of the domains without domains inside: 0, or -1 for nodes of a type
    int node_ = -1;  // level whose domains are nodes; -1: the ranks are nodes
    std::vector<row> rows_;
    std::vector<std::unordered_set<std::string>> names_;  // given so far, by level
    std::unordered_set<std::string> seen_hosts_;
    std::size_t given_names_ = 0;  // number of names of domains and hosts so far
    std::int64_t ranks_ = 0;
    written_out made_;
};

}  // namespace

written_out read_domains(const document& map, std::span<const std::string> types) {
    return domain_reader(map, types).read();
}

}  // namespace terrace::detail
