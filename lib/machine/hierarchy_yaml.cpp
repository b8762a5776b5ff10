#include "machine/hierarchy_yaml.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/hosts.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

// Checks that a list of bandwidths has one for each child. The number of children is known once the shape is.
void check_rates(const std::vector<document>& levels, const hierarchy& h) {
    for (int l = 0; l < h.depth(); ++l) {
        const document& map = levels[static_cast<std::size_t>(l)];
        if (!map.has("bandwidth") || !map.at("bandwidth").is_sequence()) continue;
        const std::size_t given = map.at("bandwidth").items().size();
        if (given != static_cast<std::size_t>(h.shape.members(l)))
            map.at("bandwidth")
                .fail(fmt::format("{} bandwidths, but level \"{}\" joins {} children in all; write one "
                                  "for each, or one for all",
                                  given, h.levels[static_cast<std::size_t>(l)].name, h.shape.members(l)));
    }
}

// Checks that levels of rings are a torus: the outermost levels, each with domains of one size.
void check_rings(const std::vector<document>& levels, const hierarchy& h) {
    for (int l = h.torus_level(); l < h.depth(); ++l) {
        const document& map = levels[static_cast<std::size_t>(l)];
        const std::string& name = h.levels[static_cast<std::size_t>(l)].name;
        if (!h.levels[static_cast<std::size_t>(l)].ring)
            map.fail(fmt::format("level \"{}\" is outside a level of rings; a torus is the outermost", name));
        if (!h.shape.uniform_size(l)) map.fail(fmt::format("the rings of level \"{}\" differ in size", name));
    }
}

// Checks that `next` may follow `levels`: its name is new, and levels inside nodes come before levels between nodes.
void check_next(const std::vector<level>& levels, const level& next, const document& map) {
    for (const level& l : levels)
        if (l.name == next.name) map.at("name").fail(fmt::format("two levels are named \"{}\"; rename one", l.name));
    if (!levels.empty() && between_nodes(levels.back().medium) && !between_nodes(next.medium))
        map.at("fabric").fail(
            fmt::format("level \"{}\" ({}) connects parts of a node, but level \"{}\" ({}) below it connects nodes; "
                        "list the levels "
                        "innermost first",
                        next.name, to_string(next.medium), levels.back().name, to_string(levels.back().medium)));
}

[[noreturn]] void fail_too_large(const document& at) { at.fail(fmt::format("more than {} ranks", max_ranks)); }

tree read_sizes(const std::vector<document>& levels) {
    std::vector<int> sizes;
    std::int64_t ranks = 1;
    for (const document& l : levels) {
        const document size = l.at("size");
        sizes.push_back(static_cast<int>(size.integer(1, max_ranks)));
        ranks *= sizes.back();
        if (ranks > max_ranks) fail_too_large(size);
    }
    return tree::uniform(sizes);
}

// Reads the `tree:` of an uneven machine into the form that the constructor of tree accepts.
class tree_reader {
public:
    explicit tree_reader(const std::vector<level>& levels) : levels_(levels), children_(levels.size()) {}

    tree read(const document& whole) {
        domain(whole, levels_.size() - 1);
        return tree(std::move(children_));
    }

private:
    void domain(const document& d, std::size_t l) {
        if (d.is_sequence() != (l > 0))
            d.fail(fmt::format("expected {} of level \"{}\"; tree nests one less deep than there are levels ({})",
                               l > 0 ? "a list: the domains below one" : "an integer: the ranks of one domain",
                               levels_[l].name, levels_.size()));
        if (l == 0) {
            children_[0].push_back(static_cast<int>(d.integer(1, max_ranks)));
            ranks_ += children_[0].back();
            if (ranks_ > max_ranks) fail_too_large(d);
            return;
        }
        const std::vector<document> items = d.items();
        if (items.empty()) d.fail(fmt::format("a domain of level \"{}\" is empty", levels_[l].name));
        children_[l].push_back(static_cast<int>(items.size()));
        for (const document& item : items) domain(item, l - 1);
    }

    const std::vector<level>& levels_;
    std::vector<std::vector<int>> children_;
    std::int64_t ranks_ = 0;
};

tree read_shape(const document& map, const std::vector<level>& levels) {
    const std::vector<document> items = map.at("levels").items();
    const bool sized = items.front().has("size");
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i].has("size") != sized)
            items[i].fail(
                fmt::format("level \"{}\" has {} size, unlike level \"{}\"; give each level one, or none and a tree",
                            levels[i].name, sized ? "no" : "a", levels[0].name));
    if (sized && map.has("tree")) map.at("tree").fail("the levels have sizes already; leave out those, or the tree");
    if (!sized && !map.has("tree")) items.front().fail("the levels have no sizes; give each level one, or add a tree");
    return sized ? read_sizes(items) : tree_reader(levels).read(map.at("tree"));
}

// Returns the levels that may name the nodes: the level whose domains are nodes, and the one whose children are nodes.
std::vector<std::size_t> host_levels(const hierarchy& h) {
    const int nodes = h.node_levels();
    std::vector<std::size_t> levels;
    if (nodes > 0) levels.push_back(static_cast<std::size_t>(nodes - 1));
    if (nodes < h.depth()) levels.push_back(static_cast<std::size_t>(nodes));
    return levels;
}

// Returns the names in a list, which must be `count` different ones.
std::vector<std::string> names_for(const document& list, std::size_t count, std::string_view one,
                                   std::string_view all) {
    std::vector<std::string> names = read_names(list);
    if (names.size() != count)
        list.fail(fmt::format("{} {} names for {} {}; name each once", names.size(), one, count, all));
    std::unordered_set<std::string_view> seen;
    for (const std::string& name : names)
        if (!seen.insert(name).second) list.fail(fmt::format("{} \"{}\" is there twice", one, name));
    return names;
}

std::vector<std::string> read_hosts(const std::vector<document>& levels, const hierarchy& h) {
    std::vector<std::string> names;
    for (std::size_t l = 0; l < levels.size(); ++l) {
        if (!levels[l].has("hosts")) continue;
        const document list = levels[l].at("hosts");
        const std::vector<std::size_t> allowed = host_levels(h);
        if (std::find(allowed.begin(), allowed.end(), l) == allowed.end())
            list.fail(fmt::format("hosts name nodes; move them to level \"{}\"", h.levels[allowed.back()].name));
        if (!names.empty()) list.fail("the nodes have names already; leave one of the two lists out");
        names = names_for(list, h.node_sizes().size(), "host", "nodes");
    }
    return names;
}

void read_domain_names(const std::vector<document>& levels, hierarchy& h) {
    for (int l = 0; l < h.depth(); ++l)
        if (levels[at(l)].has("names"))
            h.levels[at(l)].names =
                names_for(levels[at(l)].at("names"), at(h.shape.domains(l)), h.levels[at(l)].name, "domains");
}

std::string write_domain(const tree& t, int l, int d) {
    if (l == 0) return fmt::format("{}", t.children(0, d));
    std::vector<std::string> parts;
    for (int c = t.first_child(l, d); c < t.first_child(l, d + 1); ++c) parts.push_back(write_domain(t, l - 1, c));
    return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

std::vector<level> read_levels(const document& list) {
    std::vector<level> levels;
    for (const document& item : list.items()) {
        level next = read_level(item);
        check_next(levels, next, item);
        levels.push_back(std::move(next));
        if (levels.size() > max_levels) item.fail(fmt::format("more than {} levels", max_levels));
    }
    if (levels.empty()) list.fail("a machine has at least one level");
    return levels;
}

std::vector<std::string> read_names(const document& list) {
    std::vector<std::string> names;
    for (const document& item : list.is_sequence() ? list.items() : std::vector<document>{list}) try {
            const std::vector<std::string> more = expand_hosts(item.text(), max_hosts - names.size());
            names.insert(names.end(), more.begin(), more.end());
        } catch (const usage_error& e) {
            item.fail(e.what());
        }
    return names;
}

hierarchy read_hierarchy(const document& map, bool of_nodes) {
    const std::vector<document> items = map.at("levels").items();
    hierarchy h;
    h.levels = read_levels(map.at("levels"));
    h.shape = read_shape(map, h.levels);
    check_rates(items, h);
    check_rings(items, h);
    read_level_nics(items, h, of_nodes);
    h.processors = read_processors(map);
    read_domain_names(items, h);
    h.hosts = read_hosts(items, h);
    return h;
}

void read_level_nics(const std::vector<document>& levels, hierarchy& h, bool of_nodes) {
    const auto network = static_cast<std::size_t>(h.node_levels());
    for (std::size_t l = 0; l < levels.size(); ++l) {
        if (!levels[l].has("nics")) continue;
        const document entry = levels[l].at("nics");
        if (l != network)
            entry.fail(network == levels.size()
                           ? "NICs connect nodes; give them to an infiniband or ethernet level"
                           : fmt::format("NICs connect nodes; move them to level \"{}\"", h.levels[network].name));
        level& of = h.levels[l];
        if (of.ring) entry.fail("the links of a torus are those of its dimensions; leave nics out");
        const bool given = levels[l].has("bandwidth"), of_nics = entry.is_sequence() || entry.has("bandwidth");
        const int node_level = static_cast<int>(l);
        const auto node_rate = [&](int node) {
            return given ? h.rate(node_level, node) : std::numeric_limits<double>::infinity();
        };
        h.nics = read_nics(entry, h.node_sizes(), node_rate, default_rates(of.medium).bandwidth);
        if (of_nodes && entry.is_map() && entry.has("ranks"))
            entry.at("ranks").fail("the ranks of a node come with its description; leave this out");
        std::vector<double> rates = h.nics.node_rates(of_nodes);
        for (int node = 0; given && node < h.nics.nodes(); ++node)
            rates[at(node)] = std::min(rates[at(node)], h.rate(node_level, node));
        if (!given) of.bandwidth_assumed = !of_nics;
        of = with_rates(std::move(of), std::move(rates));
        of = normalised(std::move(of));
    }
}

std::string write_hierarchy(const hierarchy& h, int indent) {
    const bool uniform = h.shape.uniform();
    std::string text = fmt::format("{:{}}levels:\n", "", indent);
    const std::size_t nics = h.nics.empty() ? h.levels.size() : static_cast<std::size_t>(h.node_levels());
    const std::size_t named = h.hosts.empty() ? h.levels.size() : host_levels(h).back();
    for (std::size_t l = 0; l < h.levels.size(); ++l)
        text += fmt::format(
            "{:{}}  - {}\n", "", indent,
            write_level(h.levels[l], uniform ? h.shape.uniform_size(static_cast<int>(l)) : std::nullopt,
                        l == named ? fold_hosts(h.hosts) : "", l == nics ? write_nics(h.nics, h.node_sizes()) : ""));
    text += write_processors(h.processors, indent);
    if (!uniform) text += fmt::format("{:{}}tree: {}\n", "", indent, write_domain(h.shape, h.depth() - 1, 0));
    return text;
}

}  // namespace terrace::detail
