#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "bench/discover/discover.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "machine/rates.hpp"
#include "tools/common/table.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double alike = 0.08;          // relative difference of rates that are treated as equal
constexpr double fast_network = 2e9;    // [B/s]; a network is InfiniBand, not Ethernet, from this rate on
constexpr double quick_network = 8e-6;  // [s]; and up to this latency

// Replaces rates that differ only by noise with their median.
std::vector<double> evened(const std::vector<double>& rates) {
    std::vector<std::size_t> order(rates.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rates[a] < rates[b]; });
    std::vector<double> result(rates.size());
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
        while (end < order.size() && rates[order[end]] <= rates[order[begin]] * (1 + alike)) ++end;
        for (std::size_t i = begin; i < end; ++i) result[order[i]] = rates[order[(begin + end) / 2]];
    }
    return result;
}

std::string name_of(std::size_t l, std::size_t inside, std::size_t depth) {
    if (l + 1 == inside) return "node";
    if (l < inside) return inside == 2 ? "socket" : fmt::format("part{}", l + 1);
    const std::size_t between = depth - inside, place = l - inside;
    if (between == 1) return "cluster";
    if (place + 1 == between) return "core";
    return place == 0 ? "rack" : place == 1 ? "row" : fmt::format("group{}", place + 1);
}

fabric fabric_of(const found_level& l) {
    if (l.in_nodes) return fabric::shm;
    const double fastest = *std::max_element(l.rates.begin(), l.rates.end());
    return l.latency <= quick_network && fastest >= fast_network ? fabric::infiniband : fabric::ethernet;
}

class machine_maker {
public:
    explicit machine_maker(const discovery& d)
        : d_(d), places_(numbers_below(static_cast<int>(d.levels.back().groups.of.size()))), nic_(places_.size()) {
        for (std::size_t n = 0; n < d.nics.of_rank.size(); ++n)
            for (std::size_t i = 0; i < d.nodes[n].size(); ++i) nic_[at(d.nodes[n][i])] = d.nics.of_rank[n][i];
        std::sort(places_.begin(), places_.end(), [&](int a, int b) {
            for (std::size_t l = d.levels.size(); l-- > 0;)
                if (const std::vector<int>& of = d.levels[l].groups.of; of[at(a)] != of[at(b)])
                    return of[at(a)] < of[at(b)];
            return std::pair(nic_[at(a)], a) < std::pair(nic_[at(b)], b);
        });
    }

    discovered_machine make() const {
        const auto inside = static_cast<std::size_t>(std::ranges::count(d_.levels, true, &found_level::in_nodes));
        hierarchy h;
        std::vector<std::vector<int>> children;
        // Domain of each rank on the previous level; at first the rank itself.
        std::vector<int> below = numbers_below(static_cast<int>(places_.size()));
        for (std::size_t l = 0; l < d_.levels.size(); ++l) {
            const found_level& found = d_.levels[l];
            children.push_back(sizes(found.groups.of, below));
            const fabric medium = fabric_of(found);
            level made = with_rates({.name = name_of(l, inside, d_.levels.size()), .medium = medium},
                                    ordered_rates(found.rates, below));
            set_message_times(made, found.latency, found.overhead);
            h.levels.push_back(normalised(std::move(made)));
            below = found.groups.of;
        }
        h.shape = tree(std::move(children));
        add_nics(h);
        return {std::move(h), places_};
    }

private:
    // Returns the number of domains of `below` in each domain of `of`, in the order of places.
    std::vector<int> sizes(const std::vector<int>& of, const std::vector<int>& below) const {
        std::vector<int> result;
        int last = -1, last_below = -1;
        for (const int r : places_) {
            if (of[at(r)] != last) result.push_back(0);
            if (below[at(r)] != last_below) ++result.back();
            last = of[at(r)];
            last_below = below[at(r)];
        }
        return result;
    }

    // Evens `rates`, given by group number of `below`, and returns them in the order of places.
    std::vector<double> ordered_rates(const std::vector<double>& rates, const std::vector<int>& below) const {
        std::vector<double> result;
        const std::vector<double> even = evened(rates);
        int last = -1;
        for (const int r : places_) {
            if (below[at(r)] != last) result.push_back(std::max(even[at(below[at(r)])], slowest_link));
            last = below[at(r)];
        }
        return result;
    }

    void add_nics(hierarchy& h) const {
        if (d_.nics.of_rank.empty()) return;
        std::vector<int> node_of(places_.size());
        for (std::size_t n = 0; n < d_.nodes.size(); ++n)
            for (const int r : d_.nodes[n]) node_of[at(r)] = static_cast<int>(n);
        nic_set& nics = h.nics;
        nics.rails = d_.nics.rails;
        nics.spine = d_.nics.spine > 0 ? as_printed(d_.nics.spine) : 0;
        nics.first.push_back(0);
        int last = -1;
        for (const int r : places_) {
            const int n = node_of[at(r)];
            if (n != last) {
                const std::vector<int>& of = d_.nics.of_rank[at(n)];
                const int count = 1 + *std::max_element(of.begin(), of.end());
                for (int i = 0; i < count; ++i) nics.rates.push_back(as_printed(d_.nics.rate));
                nics.first.push_back(nics.first.back() + count);
            }
            last = n;
            nics.of_rank.push_back(nics.first[nics.first.size() - 2] + nic_[at(r)]);
        }
        // A node with more NICs than any other cannot show them all at once, so node rates are sums of NIC rates.
        level& link = h.levels[at(h.node_levels())];
        link = normalised(with_rates(std::move(link), nics.node_rates()));
        limit_to_nics(h);
    }

    const discovery& d_;
    std::vector<int> places_, nic_;  // the rank at each place; the NIC of each rank in its node
};

std::string rates_text(const level& l) {
    if (l.rates.empty()) return format_bandwidth(l.bandwidth);
    return fmt::format("{} to {}", format_bandwidth(std::ranges::min(l.rates)), format_bandwidth(l.bandwidth));
}

// Returns the largest ratio of the total rate of a domain's children to the rate of the domain's own link.
std::string oversubscription(const hierarchy& h, int l) {
    if (l + 1 >= h.depth()) return "-";
    double worst = 0;
    for (int d = 0; d < h.shape.domains(l); ++d) {
        double sum = 0;
        for (int c = 0; c < h.shape.children(l, d); ++c) sum += h.rate(l, h.shape.first_child(l, d) + c);
        worst = std::max(worst, sum / h.rate(l + 1, d));
    }
    return fmt::format("{:.2g}", std::max(worst, 1.0));
}

}  // namespace

discovered_machine machine_of(const discovery& d, const std::vector<std::string>& hosts) {
    discovered_machine found = machine_maker(d).make();
    if (hosts.empty()) return found;
    std::vector<std::string> in_order;
    for (const int r : found.ranks)
        if (in_order.empty() || in_order.back() != hosts[at(r)]) in_order.push_back(hosts[at(r)]);
    const std::set<std::string> names(in_order.begin(), in_order.end());
    if (names.size() == in_order.size() && in_order.size() == d.nodes.size()) found.machine.hosts = in_order;
    return found;
}

std::string discovery_text(const discovery& d, const hierarchy& machine) {
    table rows("<>>>>>>");
    rows.add({"level", "domains", "bandwidth", "half round trip", "overhead", "oversubscribed", "confidence"});
    for (std::size_t l = 0; l < d.levels.size(); ++l)
        rows.add({machine.levels[l].name, fmt::format("{}", machine.shape.domains(static_cast<int>(l))),
                  rates_text(machine.levels[l]), format_duration(d.levels[l].latency),
                  format_duration(d.levels[l].overhead),
                  d.levels[l].in_nodes ? "-" : oversubscription(machine, static_cast<int>(l)),
                  d.levels[l].sure() ? fmt::format("{:.0f} %", 100 * d.levels[l].confidence) : "cannot tell"});
    std::string text = rows.text();
    if (!machine.nics.empty()) text += fmt::format("NICs: {}\n", nics_text(machine.nics));
    if (d.nodes.size() == 1) text += "All ranks are on one node: there is no network to describe.\n";
    else if (d.flat() && d.sure()) text += "The network is flat: no group of nodes changes any measurement by 10 %.\n";
    for (const std::string& note : d.notes) text += note + '\n';
    return text;
}

}  // namespace terrace::detail::bench
