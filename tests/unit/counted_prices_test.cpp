// Prices compared with the schedules of all ranks, on random machines: bytes on each link and messages of each rank.
// TERRACE_TEST_ALL=1 tests more machines.

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "planner/pricer.hpp"
#include "schedule/call_schedule.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::counted_prices_test {
namespace {

constexpr int most_ranks = 24;

// Returns nodes of 1 to 4 ranks in racks of 1 to 3, some with unequal links or NICs (on rails or not); or a torus.
hierarchy drawn(dice& d) {
    const auto of = [&](int least, std::size_t more) { return least + static_cast<int>(d.below(more)); };
    if (d.below(5) == 0) return torus_of({of(1, 2), of(2, 3), of(2, 2)}, 2);
    const auto racks = 1 + d.below(3);
    std::vector<std::vector<int>> children(racks > 1 ? 3 : 2);
    const bool even = d.below(3) == 0;
    const auto size = static_cast<int>(1 + d.below(4));
    for (std::size_t rack = 0; rack < racks; ++rack) {
        const auto nodes = even ? 2 : static_cast<int>(1 + d.below(3) + (racks == 1));
        children[1].push_back(nodes);
        for (int n = 0; n < nodes; ++n) children[0].push_back(even ? size : static_cast<int>(1 + d.below(4)));
    }
    if (racks > 1) children[2] = {static_cast<int>(racks)};
    hierarchy h;
    h.levels = {link("node", fabric::ethernet, 4e9, 1e-6, 1e-6), link("rack", fabric::ethernet, 1e9, 1e-5, 1e-6)};
    if (racks > 1) h.levels.push_back(link("core", fabric::ethernet, 0.5e9, 1e-5, 1e-6));
    h.shape = tree(std::move(children));
    if (d.below(3) == 0) {
        const int l = of(0, h.levels.size());
        level& slow = h.levels[static_cast<std::size_t>(l)];
        std::vector<double> rates(static_cast<std::size_t>(h.shape.members(l)), slow.bandwidth);
        d.pick(rates) *= 0.5;
        slow = with_rates(slow, rates);
    } else if (d.below(3) == 0) {
        h.levels.front().medium = fabric::shm;
        h = with_nics(std::move(h), d.pick(std::vector<std::string>{"{count: 2}", "{count: 3, rails: true}",
                                                                    "{count: 2, rails: true, spine: 100 MB/s}",
                                                                    "[200 MB/s, 50 MB/s]"}));
    }
    return h;
}

// An element count that groups of up to 24 members divide evenly, except groups of 23: with this factor doubles could
// not represent single elements.
constexpr std::int64_t elements = std::int64_t{1024} * 27 * 25 * 7 * 11 * 13 * 17 * 19;

// Returns whether the shards of all stages are whole elements.
bool groups_divide(const hierarchy& h, const candidate& c) {
    const tree shape = stage_tree(h, c.stages);
    std::int64_t left = elements;
    for (int n = 0; n < shape.depth(); ++n) {
        const stage& s = c.stages[static_cast<std::size_t>(n)];
        std::int64_t parts = s.shares.empty() ? std::max(1, s.group) : 1;
        for (int domain = 0; domain < shape.domains(n) && !s.shares.empty(); ++domain) {
            const std::span<const int> shares = shares_of(s, shape, n, domain);
            parts = std::lcm(parts, std::accumulate(shares.begin(), shares.end(), std::int64_t{0}));
            if (left % parts != 0) return false;
        }
        if (left % parts != 0) return false;
        left /= parts;
    }
    return true;
}

struct counted {
    std::map<int, std::int64_t> links;  // elements
    std::vector<std::pair<double, double>> messages;
};

counted of_schedules(const hierarchy& h, const candidate& c, collective what) {
    const link_rows rows(h);
    const collective_call call = equal_call(h.ranks(), what, elements, sizeof(float));
    const call_layout layout(h, c.stages, call);
    counted made;
    made.messages.resize(static_cast<std::size_t>(h.ranks()));
    for (int rank = 0; rank < h.ranks(); ++rank)
        for (const schedule program = layout.generated_for(rank); const instr& i : program.instrs) {
            if (i.what != action::send || i.src.part.empty()) continue;
            ++made.messages[static_cast<std::size_t>(rank)].first;
            ++made.messages[static_cast<std::size_t>(i.peer)].second;
            rows.for_each_link(rank, i.peer, [&](int link, int, bool) { made.links[link] += i.src.part.count(); });
        }
    return made;
}

counted of_price(const hierarchy& h, const candidate& c, collective what) {
    const price cost = pricer(h).price_stages(c.stages, what);
    counted made;
    const double vector = static_cast<double>(elements) * (row_of(what).blocks ? h.ranks() : 1);
    const auto count = [](const std::vector<message_load>& list) {
        double sum = 0;
        for (const message_load& m : list) sum += m.count;
        return sum;
    };
    std::map<int, double> links;
    made.messages.resize(static_cast<std::size_t>(h.ranks()));
    for (const stage_pass& each : cost.passes()) {
        const phase_load* p = each.load.get();
        for (const link_use& l : p->links) links[l.link] += each.part * l.vectors;
        for (std::size_t rank = 0; rank < made.messages.size(); ++rank) {
            const processor_load& load = p->loads[static_cast<std::size_t>(p->load_of_sample[rank])];
            made.messages[rank].first += count(load.sent);
            made.messages[rank].second += count(load.received);
        }
    }
    for (const auto& [link, vectors] : links) made.links[link] = std::llround(vectors * vector);
    return made;
}

TEST(counted_prices, are_those_of_schedules) {
    dice d(46);
    const int machines = share("random machines whose prices are counted", 1000, 100);
    int looked_at = 0;
    std::map<std::string, int> off;
    for (int number = 0; number < machines; ++number) {
        const hierarchy h = drawn(d);
        if (h.ranks() > most_ranks) continue;
        for (const collective what : all_collectives) {
            std::vector<candidate> all = candidates(h, what);
            for (int n = 0; n < 10 && !all.empty(); ++n) {
                const candidate c = d.pick(all);
                if (!all_send(c.stages) || !groups_divide(h, c)) continue;
                const counted said = of_price(h, c, what), real = of_schedules(h, c, what);
                ++looked_at;
                const std::string where = fmt::format("{} {}", shape_text(h.shape), describe(h, c.stages));
                EXPECT_EQ(said.links, real.links) << to_string(what) << ": " << where;
                EXPECT_EQ(said.messages, real.messages) << to_string(what) << ": " << where;
                if (said.links != real.links) ++off[std::string(to_string(what)) + " elements"];
                if (said.messages != real.messages) ++off[std::string(to_string(what)) + " messages"];
            }
        }
    }
    for (const auto& [what, times] : off) fmt::print("{}: {} off\n", what, times);
    fmt::print("{} candidates counted\n", looked_at);
}

}  // namespace
}  // namespace terrace::detail::test::counted_prices_test
