// Machines whose outer levels are the dimensions of a torus.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/document.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "planner/simulate/simulate.hpp"
#include "schedule/compose.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::torus_test {

namespace {

using sizes = std::vector<int>;

constexpr std::int64_t mib = 1 << 20;
constexpr double link = 1e9;  // of each direction [B/s]

// Returns a torus with one rank per node. Links of a dimension have its element of `rates` times the rate `link`.
hierarchy torus(const sizes& shape, std::vector<double> rates = {}) {
    hierarchy h{{}, tree::uniform(shape), {1e15}};
    double nodes = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const double rate = link * (rates.empty() ? 1 : rates[d]) * nodes * (shape[d] > 2 ? 2 : 1);
        h.levels.push_back({.name = fmt::format("dim{}", d + 1),
                            .medium = fabric::infiniband,
                            .bandwidth = rate,
                            .latency = 1e-6,
                            .overhead = 0.1e-6,
                            .overhead_assumed = false});
        h.levels.back().ring = true;
        nodes *= shape[d];
    }
    return h;
}

std::vector<stage> by_dimension(const hierarchy& h, const char* algorithm) {
    std::vector<stage> stages;
    for (int l = 0; l < h.depth(); ++l) stages.push_back({{l}, h.shape.children(l, 0), mode::scatter, algorithm});
    return stages;
}

}  // namespace

// Per node 2 (M-1)/M N, over links of all dimensions in both directions (one in a dimension of two nodes); per slab.
TEST(torus, limits) {
    const double bytes = 32 * mib;
    EXPECT_DOUBLE_EQ(limit(torus({8}), 32 * mib), 2 * 7. / 8 * bytes / (2 * link));
    EXPECT_DOUBLE_EQ(limit(torus({4, 4, 4}), 32 * mib), 2 * 63. / 64 * bytes / (6 * link));
    EXPECT_DOUBLE_EQ(limit(torus({4, 2}), 32 * mib), 2 * 7. / 8 * bytes / (3 * link));
    EXPECT_DOUBLE_EQ(limit(torus({4, 4}), 32 * mib, collective::allgather), 15. / 16 * bytes / (4 * link));
    EXPECT_DOUBLE_EQ(limit(torus({4, 4}), 32 * mib, collective::broadcast), bytes / (4 * link));
    // A dimension of slow links: 4 slabs of 4 nodes, each with 8 of them.
    EXPECT_DOUBLE_EQ(limit(torus({4, 4}, {1, 0.01}), 32 * mib), 2 * 3. / 4 * bytes / (8 * link / 100));
}

// `ring` keeps one direction busy, `biring` both. Stages one after another take the sum over the dimensions: the i-th
// stage has 1/q_i of the vector, and uses only links of its own dimension. (The paper's equation 10 has the slowest
// rate of all dimensions up to the i-th.)
TEST(torus, a_stage_uses_the_links_of_its_dimension_alone) {
    const hierarchy h = torus({4, 4, 2}, {0.5, 1, 4});
    const double bytes = 4 * 32 * 32;  // no message is cut
    const auto time = [&](const char* algorithm, double directions) {
        double sum = 0, q = 1;
        const std::vector<double> rates{0.5e9 * directions, 1e9 * directions, 4e9};
        for (int l = 0; l < 3; ++l) {
            const double p = h.shape.children(l, 0), o = 0.1e-6 * (algorithm[0] == 'b' ? 2 : 1);
            sum += 2 * ((p - 1) * (1e-6 + o) + (p - 1) / p * bytes / q / rates[static_cast<std::size_t>(l)]);
            q *= p;
        }
        EXPECT_NEAR(predict(h, by_dimension(h, algorithm), static_cast<std::int64_t>(bytes), 1, 0).time, sum,
                    1e-3 * sum)
            << algorithm;
    };
    time("ring", 1);
    time("biring", 2);
}

// `direct` on a ring of 8 nodes sends to the nodes 1, 2, 3 and 4 hops ahead, and 1, 2 and 3 hops back.
TEST(torus, messages_occupy_every_link_on_their_way) {
    const hierarchy h = torus({8});
    const double bytes = 8 * 4096, part = bytes / 8;
    const double time =
        predict(h, by_dimension(h, "direct"), static_cast<std::int64_t>(bytes), 1, 0, collective::allgather).time;
    EXPECT_NEAR(time, 1e-6 + 7 * 0.1e-6 + (1 + 2 + 3 + 4) * part / link, 1e-3 * time);
}

TEST(torus, simulation_agrees) {
    for (const char* algorithm : {"ring", "biring"})
        for (const sizes& shape : {sizes{8}, sizes{4, 4}, sizes{4, 4, 2}, sizes{3, 2, 4}}) {
            const hierarchy h = torus(shape);
            const candidate c{"", by_dimension(h, algorithm)};
            for (const std::int64_t bytes : {64 * 1024L, 8 * mib})
                for (const bool in_one_piece : {false, true}) {
                    rule how = test::tuned(h, c, bytes);
                    if (in_one_piece) how.lanes = 1, how.chunk = 0;
                    const double predicted = predict(h, how.stages, bytes, how.lanes, how.chunk).time;
                    const double simulated = simulate(h, how, collective::allreduce, bytes).time;
                    EXPECT_NEAR(simulated / predicted, 1, in_one_piece ? 0.06 : 0.18)
                        << algorithm << " " << shape_text(h.shape) << " " << bytes
                        << (in_one_piece ? " in one piece" : "");
                }
        }
}

// Segments get request slots in program order. If the messages of a step fit into the slots, both directions of a ring
// are busy at once. A longer message takes all slots, and delays the other direction.
TEST(torus, long_messages_keep_the_other_direction_waiting) {
    const hierarchy h = torus({3});
    const auto both = by_dimension(h, "biring");
    const auto times_the_links = [&](std::int64_t bytes) {
        const double links = 2. * (2. / 3) * static_cast<double>(bytes) / (2 * link);
        const double simulated = simulate(h, {.stages = both}, collective::allreduce, bytes).time;
        EXPECT_NEAR(predict(h, both, bytes, 1, 0).time / simulated, 1, 0.03) << bytes;
        return simulated / links;
    };
    constexpr std::int64_t segment = 48 * 1024, message = 6;  // halves of thirds
    EXPECT_LT(times_the_links(message * 4 * segment), 1.05);  // both directions together use all slots
    EXPECT_GT(times_the_links(message * 16 * segment), 1.2);
    EXPECT_GT(times_the_links(message * 64 * segment), 1.6);
}

// With one order of dimensions, the first dimension carries (s-1)/s of the data, and is always busy.
TEST(torus, one_order_fills_the_links_of_its_first_dimension) {
    for (const sizes& shape : {sizes{4, 4}, sizes{8, 8, 4}}) {
        const hierarchy h = torus(shape);
        const double first = 2 * (shape[0] - 1.) / shape[0] * (1 << 30) / (2 * link);
        EXPECT_NEAR(predict(h, by_dimension(h, "biring"), 1 << 30, 3, 8 * mib).time, first, 0.05 * first)
            << shape_text(h.shape);
    }
}

std::vector<stage> taking_turns(std::vector<stage> stages, const sizes& first) {
    for (std::size_t s = 0; s < stages.size(); ++s) stages[s].route_share = first[s];
    return stages;
}

// The sum of bytes over all dimensions is constant, so the limit is reached if all dimensions are busy equally long.
TEST(torus, a_plan_fills_the_links_of_all_dimensions) {
    for (const sizes& shape : {sizes{4, 4}, sizes{3, 2, 4}, sizes{8, 8, 4}, sizes{16, 4}}) {
        const hierarchy h = torus(shape);
        const plan_data plan = make_plan("torus", h);
        for (const collective what : {collective::allreduce, collective::reduce_scatter, collective::allgather}) {
            const rule& r = plan.choose(what, 1 << 30);
            const std::string text = std::string(to_string(what)) + " over " + describe(h, r.stages);
            EXPECT_GT(r.stages[1].route_share, 0) << text;
            EXPECT_LT(r.predicted, 1.04 * r.limit) << text;
            EXPECT_LE(r.predicted, predict(h, baseline(h, "flat-ring", what).stages, 1 << 30, 3, 8 * mib, what).time);
            EXPECT_EQ(parse_plan(plan.text, "torus").choose(what, 1 << 30).stages, r.stages) << text;
        }
    }
}

// Routes begin less often in slower dimensions.
TEST(torus, shares_fit_the_links_of_the_dimensions) {
    const auto first = [](const hierarchy& h) {
        sizes all;
        const plan_data plan = make_plan("torus", h);
        for (const stage& s : plan.choose(collective::allreduce, 1 << 30).stages) all.push_back(s.route_share);
        return all;
    };
    EXPECT_EQ(first(torus({4, 4, 4})), (sizes{1, 1, 1}));
    const hierarchy unequal = torus({4, 4}, {1, 0.5});  // f and 1 - f: 3/4 f + 3/16 (1 - f) = 2 (3/16 f + 3/4 (1 - f))
    EXPECT_EQ(first(unequal), (sizes{7, 2}));
    EXPECT_EQ(first(torus({4, 4}, {1, 0.25})), (sizes{0, 0}));  // equally busy without routes
    const plan_data part = make_plan("tree", part_of(unequal, sizes{0, 1, 2, 3, 4, 5, 6, 7}));
    for (const stage& s : part.choose(collective::allreduce, 1 << 30).stages) EXPECT_EQ(s.route_share, 0);
}

// In dimensions of different size a chunk's messages differ in size, and messages on one link wait for those on
// another. With three lanes this costs part of the rate; with more chunks in flight it does not.
TEST(torus, lanes_fill_the_gaps_of_unequal_dimensions) {
    const hierarchy h = torus({3, 2, 4});
    const plan_data plan = make_plan("torus", h);
    const std::int64_t bytes = 16 * mib;
    rule how = plan.choose(collective::allreduce, bytes);
    const auto simulated = [&] { return simulate(h, how, collective::allreduce, bytes).time; };
    const double predicted = predict(h, how.stages, bytes, how.lanes, how.chunk).time;
    EXPECT_NEAR(simulated() / predicted, 1, 0.04) << describe(h, how.stages);
    EXPECT_LT(predicted, 1.06 * limit(h, bytes, collective::allreduce));
    how.lanes = 3;
    EXPECT_GT(simulated(), 1.05 * predicted);
}

// If lanes began together, all of them would have short messages at the same time, and links would be idle.
TEST(torus, lanes_do_not_keep_step) {
    for (const sizes& shape : {sizes{6, 4, 2}, sizes{4, 4, 4}}) {
        const hierarchy h = torus(shape, {10, 10, 10});
        const rule how = make_plan("torus", h).choose(collective::allreduce, 32 * mib);
        EXPECT_LT(simulate(h, how, collective::allreduce, 32 * mib).time, limit(h, 32 * mib) / 0.92)
            << describe(h, how.stages);
    }
}

// Simulations and prices agree in the load of links, for routes that begin in any dimension.
TEST(torus, simulations_count_what_prices_say) {
    const hierarchy h = torus({3, 2, 4});
    for (const sizes& turns : {sizes{0, 0, 0}, sizes{1, 1, 1}, sizes{3, 1, 2}, sizes{0, 1, 0}})
        for (const collective what : {collective::allreduce, collective::reduce_scatter, collective::allgather}) {
            const rule how{.lanes = 2, .chunk = mib, .stages = taking_turns(by_dimension(h, "biring"), turns)};
            std::vector<double> most(3);
            for (const link_load& l : simulate(h, how, what, 8 * mib).links)
                most[static_cast<std::size_t>(l.row)] =
                    std::max(most[static_cast<std::size_t>(l.row)], l.bytes / l.rate);
            for (const link_cost& l : predict(h, how.stages, 8 * mib, how.lanes, how.chunk, what).links)
                EXPECT_NEAR(most[static_cast<std::size_t>(l.row)] / l.time, 1, 0.02) << describe(h, how.stages);
        }
}

TEST(torus, turns_are_for_dimensions_alone) {
    const hierarchy h = torus({4, 2, 3});
    plan_data r;
    r.name = "torus";
    r.machine = h;
    r.rules[collective::allreduce] = {
        {.at = 8, .predicted = 1, .limit = 1, .stages = taking_turns(by_dimension(h, "ring"), {2, 0, 1})}};
    const std::string text = finished(r).text;
    EXPECT_EQ(parse_plan(text, "p").rules, r.rules);
    EXPECT_EQ(parse_plan(text, "p").text, text);
    const auto refused = [&](const std::string& from, const std::string& to) {
        std::string other = text;
        const std::size_t found = other.find(from);
        if (found == std::string::npos) return "no " + from;
        try {
            parse_plan(other.replace(found, from.size(), to), "p");
        } catch (const input_error& e) {
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    const auto expect = [&](const std::string& message, const std::string& part) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    expect(refused("route_share: 2", "route_share: 0"), "from 1 to 1000");
    expect(refused("route_share: 2", "route_share: some"), "not an integer");
    expect(refused("mode: scatter, algorithm: ring}", "mode: root, algorithm: tree}"),
           "route_share is not supported here: a stage has mode root");
    expect(
        refused("[dim1], group: 4,", "[dim1], group: 2, mode: scatter, algorithm: ring}, {levels: [dim1], group: 2,"),
        "level dim1 is split");
    expect(refused("algorithm: ring, route_share: 1", "provider: mpi, algorithm: ring, route_share: 1"),
           "dimensions have providers messages and mpi");
    plan_data tree = r;
    for (level& l : tree.machine.levels) l.ring = false;
    EXPECT_THROW(finished(tree), stage_error);
    // Stages of other providers' collectives cannot have routes.
    std::vector<stage> stages = r.rules[collective::allreduce].front().stages;
    EXPECT_NO_THROW(compose(h, stages, 48, 1));
    for (stage& s : stages) s.algorithm.clear(), s.provider = provider::shared_memory;
    EXPECT_THROW(compose(h, stages, 48, 1), plan_error);
}

TEST(torus, reads_back) {
    const hierarchy h = torus({4, 3});
    const std::string text = write_hierarchy(h, 0);
    const hierarchy copy = read_hierarchy(document::parse(text, "torus"));
    EXPECT_EQ(write_hierarchy(copy, 0), text);
    EXPECT_EQ(copy.torus_level(), 0);
}

TEST(torus, a_part_is_no_torus) {
    const hierarchy h = torus({4, 4});
    const hierarchy part = part_of(h, sizes{0, 1, 4, 5});
    EXPECT_EQ(part.torus_level(), part.depth());
    EXPECT_EQ(part.levels.front().bandwidth, link);
    sizes all(16);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(part_of(h, all).torus_level(), 0);
}

}  // namespace terrace::detail::torus_test
