#include "machine/hierarchy.hpp"

#include <array>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/edit_distance.hpp"
#include "base/letters.hpp"

namespace terrace::detail {

namespace {

constexpr std::array<std::string_view, 6> fabric_table{"shm", "nvlink", "pcie", "bus", "infiniband", "ethernet"};

// Other usual names of fabrics.
constexpr std::array<std::pair<std::string_view, fabric>, 13> fabric_aliases{{{"memory", fabric::shm},
                                                                              {"shared_memory", fabric::shm},
                                                                              {"nvswitch", fabric::nvlink},
                                                                              {"xgmi", fabric::nvlink},
                                                                              {"pci", fabric::pcie},
                                                                              {"pci-e", fabric::pcie},
                                                                              {"qpi", fabric::bus},
                                                                              {"upi", fabric::bus},
                                                                              {"ib", fabric::infiniband},
                                                                              {"omni-path", fabric::infiniband},
                                                                              {"eth", fabric::ethernet},
                                                                              {"roce", fabric::ethernet},
                                                                              {"tcp", fabric::ethernet}}};

// Returns the elements with the given indexes; none if `all` is empty.
template <class T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<int>& indexes) {
    std::vector<T> result;
    if (!all.empty())
        for (const int i : indexes) result.push_back(all[at(i)]);
    return result;
}

}  // namespace

std::string_view to_string(fabric f) noexcept { return fabric_table[static_cast<std::size_t>(f)]; }

std::optional<fabric> parse_fabric(std::string_view text) noexcept {
    for (std::size_t f = 0; f < fabric_table.size(); ++f)
        if (same_word(text, fabric_table[f])) return static_cast<fabric>(f);
    for (const auto& [alias, meant] : fabric_aliases)
        if (same_word(text, alias)) return meant;
    return {};
}

std::string unknown_fabric(std::string_view text) {
    return fmt::format("unknown fabric \"{}\"{}; the fabrics are {}", text, did_you_mean(text, fabric_table),
                       fmt::join(fabric_table, ", "));
}

tree::tree(std::vector<std::vector<int>> children) : children_(std::move(children)) {
    if (children_.empty() || children_.back().size() != 1) throw usage_error("tree: the last level must be one domain");
    for (int l = 0; l < depth(); ++l) {
        const std::vector<int>& sizes = children_[at(l)];
        if (std::any_of(sizes.begin(), sizes.end(), [](int n) { return n < 1; }))
            throw usage_error("tree: a domain has no children");
        std::vector<int>& starts = first_child_.emplace_back(sizes.size() + 1);
        std::partial_sum(sizes.begin(), sizes.end(), starts.begin() + 1);
        const bool alike = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
        size_.push_back(alike && !sizes.empty() ? sizes.front() : 0);
        std::vector<int>& parents = parents_.emplace_back();
        for (int d = 0; !alike && d < domains(l); ++d) parents.insert(parents.end(), at(sizes[at(d)]), d);
        if (l > 0 && starts.back() != domains(l - 1))
            throw usage_error(fmt::format("tree: level {} has {} children, but there are {} domains below it", l,
                                          starts.back(), domains(l - 1)));
        std::vector<int> ranks(sizes.size() + 1);
        for (std::size_t d = 0; d < ranks.size(); ++d) ranks[d] = first_rank(l - 1, starts[d]);
        first_rank_.push_back(std::move(ranks));
    }
    ranks_ = first_rank_.back().back();
}

tree tree::uniform(std::span<const int> sizes) {
    std::vector<std::vector<int>> children(sizes.size());
    int domains = 1;
    for (std::size_t l = sizes.size(); l-- > 0;) {
        children[l].assign(at(domains), sizes[l]);
        domains *= sizes[l];
    }
    return tree(std::move(children));
}

std::vector<int> hierarchy::node_sizes() const {
    const int l = node_levels() - 1;
    std::vector<int> sizes;
    const int nodes = l < 0 ? ranks() : shape.domains(l);
    for (int d = 0; d < nodes; ++d) sizes.push_back(shape.first_rank(l, d + 1) - shape.first_rank(l, d));
    return sizes;
}

hierarchy part_of(const hierarchy& whole, std::span<const int> ranks) {
    hierarchy part{whole.levels, {}, whole.processors};
    std::vector<std::vector<int>> children;
    std::vector<int> left(ranks.begin(), ranks.end());  // remaining children of the level, ascending
    const int nodes = whole.node_levels();              // level whose children are nodes
    for (int l = 0; l < whole.depth(); ++l) {
        if (l == nodes) part.hosts = chosen(whole.hosts, left);
        if (!whole.levels[at(l)].rates.empty())
            part.levels[at(l)] = with_rates(whole.levels[at(l)], chosen(whole.levels[at(l)].rates, left));
        std::vector<int>& sizes = children.emplace_back();
        std::vector<int> parents;
        for (int d = 0; d < whole.shape.domains(l); ++d) {
            const auto first = std::lower_bound(left.begin(), left.end(), whole.shape.first_child(l, d));
            const auto last = std::lower_bound(first, left.end(), whole.shape.first_child(l, d + 1));
            if (first == last) continue;
            sizes.push_back(static_cast<int>(last - first));
            parents.push_back(d);
        }
        part.levels[at(l)].names = chosen(whole.levels[at(l)].names, parents);
        left = std::move(parents);
    }
    if (nodes == whole.depth()) part.hosts = whole.hosts;
    part.shape = tree(std::move(children));
    part.nics = part_of(whole.nics, whole.node_sizes(), ranks);
    limit_to_nics(part);
    for (int l = whole.torus_level(); l < whole.depth() && part.ranks() < whole.ranks(); ++l) {
        part.levels[at(l)].ring = false;
        part.levels[at(l)].bandwidth *= whole.ring_share(l);
    }
    return part;
}

void limit_to_nics(hierarchy& h) {
    const int l = h.node_levels();
    if (h.nics.empty() || l == h.depth()) return;
    std::vector<double> rates = h.nics.node_rates();
    for (int node = 0; node < h.nics.nodes(); ++node) rates[at(node)] = std::min(rates[at(node)], h.rate(l, node));
    h.levels[at(l)] = with_rates(std::move(h.levels[at(l)]), std::move(rates));
}

// The link of a child into a level is as fast as the slowest network on its way, including those that are left out.
hierarchy without_idle_levels(const hierarchy& h) {
    hierarchy result{{}, {}, h.processors, h.hosts};
    std::vector<std::vector<int>> children;
    std::vector<double> narrow;  // by child: rate of the slowest network that was left out
    for (int l = 0; l < h.depth(); ++l) {
        const std::vector<int>& sizes = h.shape.children()[at(l)];
        const bool joins = std::any_of(sizes.begin(), sizes.end(), [](int n) { return n > 1; });
        const bool last_chance = l + 1 == h.depth() && children.empty();
        const bool left_out = !joins && !last_chance;
        std::vector<double> rates;
        if (between_nodes(h.levels[at(l)].medium) && (left_out || !narrow.empty()))
            for (int c = 0; c < h.shape.members(l); ++c)
                rates.push_back(narrow.empty() ? h.rate(l, c) : std::min(narrow[at(c)], h.rate(l, c)));
        if (left_out) {
            narrow = std::move(rates);
            continue;
        }
        children.push_back(sizes);
        result.levels.push_back(narrow.empty() ? h.levels[at(l)] : with_rates(h.levels[at(l)], std::move(rates)));
        narrow.clear();
    }
    result.shape = tree(std::move(children));
    if (result.node_levels() < result.depth()) result.nics = h.nics;
    return result;
}

level with_rates(level l, std::vector<double> rates) {
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    l.bandwidth = *most;
    l.rates = *least == *most ? std::vector<double>{} : std::move(rates);
    return l;
}

std::string shape_text(const tree& t) {
    std::vector<std::string> parts;
    for (int l = 0; l < t.depth(); ++l) {
        const auto [low, high] = std::minmax_element(t.children()[at(l)].begin(), t.children()[at(l)].end());
        parts.push_back(*low == *high ? fmt::format("{}", *low) : fmt::format("{}-{}", *low, *high));
    }
    return fmt::format("{}", fmt::join(parts, " x "));
}

}  // namespace terrace::detail
