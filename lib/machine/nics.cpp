#include "machine/nics.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"

namespace terrace::detail {

namespace {

constexpr int most_nics = 64;  // NICs of one node

bool all_equal(const auto& list) {
    return std::adjacent_find(list.begin(), list.end(), std::not_equal_to<>()) == list.end();
}

// Returns true if all nodes have equally many elements of the list, with equal values.
bool repeats(const auto& list, const auto& counts) {
    return all_equal(counts) && std::equal(list.begin() + counts.front(), list.end(), list.begin());
}

std::vector<int> counts_of(const nic_set& nics) {
    std::vector<int> counts;
    for (int n = 0; n < nics.nodes(); ++n) counts.push_back(nics.count_of(n));
    return counts;
}

// Reads `nics:` for nodes of the given sizes.
class nic_reader {
public:
    nic_reader(const document& entry, std::span<const int> node_sizes)
        : entry_(entry), node_sizes_(node_sizes), nodes_(static_cast<int>(node_sizes.size())) {}

    nic_set read(const std::function<double(int node, int count)>& share) {
        if (entry_.is_map()) entry_.allow_only({"count", "bandwidth", "ranks", "rails", "spine"});
        const bool short_form = entry_.is_sequence();
        const std::vector<double> rates = short_form                ? rates_in(entry_)
                                          : entry_.has("bandwidth") ? rates_in(entry_.at("bandwidth"))
                                                                    : std::vector<double>{};
        const bool listed = short_form || (entry_.has("bandwidth") && entry_.at("bandwidth").is_sequence());
        find_counts(listed ? static_cast<int>(rates.size()) : 0);
        std::vector<std::vector<double>> by_node;
        const int all = std::accumulate(counts_.begin(), counts_.end(), 0);
        const bool of_one = listed && all_equal(counts_) && static_cast<int>(rates.size()) == counts_.front();
        if (listed && !of_one && static_cast<int>(rates.size()) != all)
            (short_form ? entry_ : entry_.at("bandwidth"))
                .fail(fmt::format("{} bandwidths, but the nodes have {} NICs in all; write one for each, those of one "
                                  "node if all are alike, or one for all",
                                  rates.size(), all));
        for (int n = 0, next = 0; n < nodes_; ++n) {
            std::vector<double>& of_node = by_node.emplace_back();
            for (int i = 0; i < counts_[at(n)]; ++i, ++next)
                of_node.push_back(rates.empty() ? share(n, counts_[at(n)])
                                  : !listed     ? rates.front()
                                                : rates[at(of_one ? i : next)]);
        }
        nic_set made = shared_nics(by_node, node_sizes_);
        if (short_form) return made;
        if (entry_.has("ranks")) place(made, entry_.at("ranks"));
        read_rails(made);
        return made;
    }

private:
    static std::vector<double> rates_in(const document& given) {
        std::vector<double> rates;
        for (const document& item : given.is_sequence() ? given.items() : std::vector{given})
            rates.push_back(as_printed(read_bandwidth(item)));
        if (rates.empty()) given.fail("an empty list of bandwidths; write one for each NIC");
        return rates;
    }

    void find_counts(int rates) {
        if (entry_.is_sequence() || !entry_.has("count")) {
            if (rates == 0) entry_.fail("how many NICs has a node? Write count, or a list of bandwidths");
            if (rates > most_nics) entry_.fail(fmt::format("a node has at most {} NICs", most_nics));
            counts_.assign(at(nodes_), rates);
            return check_all(entry_);
        }
        const document count = entry_.at("count");
        if (!count.is_sequence()) counts_.assign(at(nodes_), static_cast<int>(count.integer(1, most_nics)));
        else {
            for (const document& item : count.items()) counts_.push_back(static_cast<int>(item.integer(1, most_nics)));
            if (static_cast<int>(counts_.size()) != nodes_)
                count.fail(
                    fmt::format("{} counts for {} nodes; write one for each, or one for all", counts_.size(), nodes_));
        }
        check_all(count);
    }

    void check_all(const document& where) const {
        if (std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}) > max_ranks)
            where.fail(fmt::format("more than {} NICs in all", max_ranks));
    }

    // Sets the NIC of each rank from a list for one node or for all nodes.
    void place(nic_set& made, const document& list) const {
        std::vector<document> items = list.items();
        const bool of_one = all_equal(node_sizes_) && static_cast<int>(items.size()) == node_sizes_.front();
        if (!of_one && items.size() != made.of_rank.size())
            list.fail(
                fmt::format("NICs of {} ranks, but there are {}; write one for each, or those of one node if "
                            "all are alike",
                            items.size(), made.of_rank.size()));
        int rank = 0;
        for (int n = 0; n < nodes_; ++n)
            for (int r = 0; r < node_sizes_[at(n)]; ++r, ++rank)
                made.of_rank[at(rank)] =
                    made.first[at(n)] + static_cast<int>(items[at(of_one ? r : rank)].integer(0, counts_[at(n)] - 1));
    }

    void read_rails(nic_set& made) const {
        if (entry_.has("rails")) {
            const document rails = entry_.at("rails");
            if (rails.text() != "true" && rails.text() != "false") rails.fail("rails are true or false");
            made.rails = rails.text() == "true";
        }
        if (!entry_.has("spine")) return;
        if (!made.rails) entry_.at("spine").fail("a spine connects rails; add rails: true, or leave it out");
        made.spine = as_printed(read_bandwidth(entry_.at("spine")));
    }

    const document& entry_;
    std::span<const int> node_sizes_;
    int nodes_;
    std::vector<int> counts_;  // number of NICs, by node
};

std::string write_counts(const std::vector<int>& counts) {
    return all_equal(counts) ? fmt::format("{}", counts.front()) : fmt::format("[{}]", fmt::join(counts, ", "));
}

std::string write_rates(const nic_set& nics) {
    std::span<const double> rates = nics.rates;
    if (all_equal(rates)) return format_bandwidth(rates.front());
    if (repeats(rates, counts_of(nics))) rates = rates.first(at(nics.count_of(0)));
    std::vector<std::string> texts;
    for (const double rate : rates) texts.push_back(format_bandwidth(rate));
    return fmt::format("[{}]", fmt::join(texts, ", "));
}

// Returns the places of the NICs that ranks use: for one node if all are alike, else for all.
std::string write_places(const nic_set& nics, std::span<const int> node_sizes) {
    std::vector<int> places;
    for (std::size_t n = 0, rank = 0; n < node_sizes.size(); ++n)
        for (int r = 0; r < node_sizes[n]; ++r, ++rank) places.push_back(nics.of_rank[rank] - nics.first[n]);
    if (repeats(places, node_sizes)) places.resize(at(node_sizes.front()));
    return fmt::format("[{}]", fmt::join(places, ", "));
}

}  // namespace

std::vector<double> nic_set::node_rates(bool all) const {
    std::vector<bool> used(rates.size(), all);
    for (const int nic : of_rank) used[at(nic)] = true;
    std::vector<double> sums;
    for (int n = 0; n < nodes(); ++n) {
        double& sum = sums.emplace_back(0);
        for (int nic = first_of(n); nic < first_of(n + 1); ++nic)
            if (used[at(nic)]) sum += rate(nic);
    }
    return sums;
}

std::vector<double> nic_set::rank_rates() const {
    std::vector<int> ranks_on(rates.size());
    for (const int nic : of_rank) ++ranks_on[at(nic)];
    std::vector<double> result;
    for (const int nic : of_rank) result.push_back(rate(nic) / ranks_on[at(nic)]);
    return result;
}

nic_set shared_nics(const std::vector<std::vector<double>>& rates, std::span<const int> node_sizes) {
    nic_set made;
    for (const std::vector<double>& of_node : rates) {
        made.first.push_back(made.count());
        made.rates.insert(made.rates.end(), of_node.begin(), of_node.end());
    }
    made.first.push_back(made.count());
    return with_node_sizes(std::move(made), node_sizes);
}

nic_set with_node_sizes(nic_set nics, std::span<const int> node_sizes) {
    nics.of_rank.clear();
    for (int n = 0; n < nics.nodes(); ++n)
        for (int r = 0; r < node_sizes[at(n)]; ++r)
            nics.of_rank.push_back(nics.first_of(n) +
                                   static_cast<int>(std::int64_t{r} * nics.count_of(n) / node_sizes[at(n)]));
    return nics;
}

nic_set part_of(const nic_set& whole, std::span<const int> node_sizes, std::span<const int> ranks) {
    nic_set part;
    part.rails = whole.rails;
    part.spine = whole.spine;
    auto next = ranks.begin();
    int end = 0;
    for (int n = 0; n < whole.nodes(); ++n) {
        end += node_sizes[at(n)];
        if (next == ranks.end() || *next >= end) continue;
        const int moved = part.count() - whole.first_of(n);
        part.first.push_back(part.count());
        for (int nic = whole.first_of(n); nic < whole.first_of(n + 1); ++nic) part.rates.push_back(whole.rate(nic));
        for (; next != ranks.end() && *next < end; ++next) part.of_rank.push_back(whole.of(*next) + moved);
    }
    if (!whole.empty()) part.first.push_back(part.count());
    return part;
}

nic_set read_nics(const document& entry, std::span<const int> node_sizes, const std::function<double(int)>& node_rate,
                  double usual) {
    const auto share = [&](int node, int count) {
        const double rate = node_rate(node);
        return as_printed(std::isfinite(rate) ? rate / count : usual);
    };
    return nic_reader(entry, node_sizes).read(share);
}

std::string write_nics(const nic_set& nics, std::span<const int> node_sizes) {
    std::string text = fmt::format("{{count: {}, bandwidth: {}", write_counts(counts_of(nics)), write_rates(nics));
    if (with_node_sizes(nics, node_sizes) != nics) text += fmt::format(", ranks: {}", write_places(nics, node_sizes));
    if (nics.rails) text += ", rails: true";
    if (nics.spine > 0) text += fmt::format(", spine: {}", format_bandwidth(nics.spine));
    return text + "}";
}

std::string nics_text(const nic_set& nics) {
    const std::vector<int> counts = counts_of(nics);
    const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
    const auto [least, fastest] = std::minmax_element(nics.rates.begin(), nics.rates.end());
    std::string text = *fewest == *most ? fmt::format("{}", *most) : fmt::format("{}-{}", *fewest, *most);
    text += fmt::format(" NIC{} of {}", *most == 1 ? "" : "s", format_bandwidth(*fastest));
    if (*least != *fastest)
        text = fmt::format("{} NICs of {} to {}", text.substr(0, text.find(' ')), format_bandwidth(*least),
                           format_bandwidth(*fastest));
    if (nics.rails) text += " on rails";
    if (nics.spine > 0) text += fmt::format(", spine {}", format_bandwidth(nics.spine));
    return text;
}

}  // namespace terrace::detail
