#include "support/cuts.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace terrace::detail::test {

network_graph graph_of(const hierarchy& machine) {
    const tree& t = machine.shape;
    network_graph g{t.ranks(), t.ranks(), {}};
    std::vector<int> below(static_cast<std::size_t>(t.ranks()));
    for (int r = 0; r < t.ranks(); ++r) below[static_cast<std::size_t>(r)] = r;
    for (int l = 0; l < t.depth(); ++l) {
        std::vector<int> domains;
        for (int d = 0; d < t.domains(l); ++d) {
            domains.push_back(g.vertices++);
            for (int child = t.first_child(l, d); child < t.first_child(l, d + 1); ++child) {
                const double rate = machine.rate(l, child);
                g.links.push_back({below[static_cast<std::size_t>(child)], domains.back(), rate});
                g.links.push_back({domains.back(), below[static_cast<std::size_t>(child)], rate});
            }
        }
        below = std::move(domains);
    }
    return g;
}

double allgather_bound(const network_graph& g, double bytes) {
    const std::uint32_t all_ranks = (1u << g.ranks) - 1;
    double most = 0;
    for (std::uint32_t set = 1; set < 1u << g.vertices; ++set) {
        if ((set & all_ranks) == 0 || (set & all_ranks) == all_ranks) continue;
        double out = 0;
        for (const network_graph::link& l : g.links)
            if ((set >> l.from & 1u) != 0 && (set >> l.to & 1u) == 0) out += l.rate;
        most = std::max(most, std::popcount(set & all_ranks) / out);
    }
    return bytes / g.ranks * most;
}

}  // namespace terrace::detail::test
