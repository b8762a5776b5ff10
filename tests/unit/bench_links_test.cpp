// Limits and cluster files of terrace-bench by measured links, also of the host's bus.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "bench/device/device_links.hpp"
#include "bench/measure/flow.hpp"
#include "bench/measure/link_limits.hpp"
#include "bench/measure/links.hpp"
#include "bench/measure/partners.hpp"
#include "machine/hierarchy_yaml.hpp"

namespace terrace::detail::bench::bench_links_test {

namespace {

TEST(bench_bus, the_limit_is_of_the_rank_that_copies_most) {
    const bus_rates bus{.in = 50e9, .out = 40e9, .both = 60e9};
    constexpr std::int64_t bytes = 1'200'000'000;
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::allreduce, bytes, 4), 2.4 / 60);  // in and out at once
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::reduce, bytes, 4), 2.4 / 60);
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::broadcast, bytes, 4), 1.2 / 40);  // no rank copies both ways
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::reduce_scatter, bytes, 4), 1.5 / 60);
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::reduce_scatter, bytes, 100), 1.2 / 50);
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::allgather, bytes, 100), 1.2 / 40);
}

// Nodes of 4 and 2 NICs. The smaller node limits an allreduce: N bytes over its NICs at their measured rates.
TEST(bench_links, goodput_is_what_was_measured_of_all_nics) {
    const hierarchy h = read_hierarchy(document::parse(
        "levels:\n  - {name: node, fabric: shm}\n  - {name: cluster, fabric: ethernet, nics: {count: [4, 2], "
        "bandwidth: 100 MB/s}, latency: 1 us}\ntree: [4, 2]\n",
        "uneven nics"));
    const std::vector<std::optional<double>> measured{{}, 400e6};  // rate of the faster node, as in the file
    const link_limits limits(h, measured);
    for (const std::int64_t bytes : {1'000, 10'000'000}) {
        const double time = static_cast<double>(bytes) / 200e6;
        EXPECT_NEAR(*limits.percent_of_goodput(collective::allreduce, bytes, time), 100, 1e-9);
        EXPECT_NEAR(*limits.percent_of_goodput(collective::broadcast, bytes, time), 100, 1e-9);
    }
    EXPECT_FALSE(link_limits(h, {}).percent_of_goodput(collective::allreduce, 1'000, 1).has_value());
}

TEST(bench_links, what_was_measured_takes_the_place_of_what_the_file_says) {
    const hierarchy before =
        read_hierarchy(document::parse("levels:\n"
                                       "  - {name: node, size: 2, fabric: shm}\n"
                                       "  - {name: shelf, size: 1, fabric: ethernet, latency: 7 us}\n"
                                       "  - {name: core, size: 3, fabric: ethernet, bandwidth: 1 Gbit/s}\n",
                                       "f"));
    const measured_level node{{1e-6, 9e9, 0.4e-6}, {0, 3e9, 0.9e-6}};
    const measured_level core{{30e-6, 119e6, 34e-6}, {0, 118e6, 60e-6}};
    const hierarchy after = calibrated(before, {{node, {}, core}, 4e9, 9e9});
    EXPECT_EQ(after.shape, before.shape);
    EXPECT_DOUBLE_EQ(after.levels[0].bandwidth, 3e9);   // measured with all pairs at once
    EXPECT_DOUBLE_EQ(after.levels[0].latency, 0.6e-6);  // measured with one pair, without its overhead
    EXPECT_DOUBLE_EQ(after.levels[0].overhead, 0.9e-6);
    EXPECT_FALSE(after.levels[0].bandwidth_assumed || after.levels[0].latency_assumed);
    EXPECT_FALSE(after.levels[0].overhead_assumed);
    EXPECT_DOUBLE_EQ(after.levels[1].latency, 7e-6);  // one child: not measured
    EXPECT_TRUE(after.levels[1].bandwidth_assumed);
    EXPECT_DOUBLE_EQ(after.levels[2].bandwidth, 119e6);   // one pair reaches the link's rate
    EXPECT_DOUBLE_EQ(after.levels[2].overhead, 15e-6);    // at most half of the latency, though streams are slower
    EXPECT_DOUBLE_EQ(after.levels[2].latency, 13.92e-6);  // 15 us less the header of a message, as printed
    EXPECT_DOUBLE_EQ(after.processors.reduction, 4e9);

    const std::string text = links_text(before, {{node, {}, core}, 4e9, 9e9}, after);
    EXPECT_NE(text.find("10 GB/s (assumed)"), text.npos) << text;
    EXPECT_NE(text.find("3 GB/s"), text.npos) << text;
    EXPECT_NE(text.find("reduction"), text.npos) << text;
}

// A rack with nodes of three and one ranks, and one with a node of two ranks. The job's order of ranks is reversed.
TEST(bench_links, partners_are_in_neighbouring_children) {
    const tree shape({{3, 1, 2}, {2, 1}, {2}});
    const std::vector<int> ranks{5, 4, 3, 2, 1, 0};
    using all = std::vector<std::vector<int>>;
    EXPECT_EQ(fellows(shape, 0, ranks), (all{{5, 4, 3}, {1, 0}}));
    EXPECT_EQ(fellows(shape, 1, ranks), (all{{5, 2}}));
    EXPECT_EQ(fellows(shape, 2, ranks), (all{{5, 1}, {4, 0}}));
    constexpr int none = no_rank;
    EXPECT_EQ(all_pairs(shape, 0, ranks).to, (std::vector<int>{1, 0, none, 5, 3, 4}));
    EXPECT_EQ(all_pairs(shape, 1, ranks).to, (std::vector<int>{none, none, 5, none, none, 2}));
    EXPECT_EQ(all_pairs(shape, 2, ranks).to, (std::vector<int>{4, 5, none, none, 0, 1}));
    EXPECT_EQ(all_pairs(shape, 0, ranks).from, (std::vector<int>{1, 0, none, 4, 5, 3}));
    EXPECT_EQ(one_pair(shape, 2, ranks).to, (std::vector<int>{none, 5, none, none, none, 1}));
    EXPECT_FALSE(one_pair(tree({{1, 1}, {2}}), 0, {0, 1}).any);
}

TEST(bench_links, what_nccl_and_mpi_take_is_of_all_pairs) {
    const hierarchy before =
        read_hierarchy(document::parse("levels:\n"
                                       "  - {name: node, size: 2, fabric: nvlink, nccl: {stage: 12 us}}\n"
                                       "  - {name: shelf, size: 1, fabric: infiniband, nccl: {step: 7 us}}\n"
                                       "  - {name: core, size: 3, fabric: infiniband, overhead: 500 ns}\n",
                                       "f"));
    const measured_device_level node{{{0, 5e-6, 400e9}, {0, 9e-6, 20e9}}, {{14e-6, 6e-6, 300e9}, {0, 0.5e-6, 10e9}}};
    const measured_device_level core{{{0, 8e-6, 24e9}, {0, 12e-6, 12e9}}, {{30e-6, 9e-6, 22e9}, {0, 13e-6, 11e9}}};
    const measured_devices found{{node, {}, core}, "by hand"};
    const hierarchy after = calibrated(before, found);
    EXPECT_DOUBLE_EQ(after.levels[0].nccl->stage, 14e-6);
    EXPECT_DOUBLE_EQ(after.levels[0].nccl->step, 5e-6);  // without the overhead of nvlink, 1 us
    EXPECT_DOUBLE_EQ(after.levels[0].nccl->bandwidth, 300e9);
    EXPECT_DOUBLE_EQ(after.levels[0].mpi->step, 1e-9);  // below the overhead
    EXPECT_DOUBLE_EQ(after.levels[0].bandwidth, before.levels[0].bandwidth);
    EXPECT_DOUBLE_EQ(after.levels[1].nccl->step, 7e-6);  // one child: not measured
    EXPECT_FALSE(after.levels[1].mpi);
    EXPECT_DOUBLE_EQ(after.levels[2].mpi->step, 12.5e-6);
    EXPECT_DOUBLE_EQ(after.levels[2].mpi->bandwidth, 11e9);
    EXPECT_EQ(after.levels[2].mpi->stage, 0);

    const std::string text = links_text(before, found, after);
    for (const char* part : {"12 us", "14 us", "400 GB/s", "22 us (assumed)", "core", "-"})
        EXPECT_NE(text.find(part), text.npos) << part << '\n' << text;
}

// Streams share a link. Only the time until the first stream ends counts.
TEST(bench_links, rates_are_those_while_all_streams_run) {
    const std::vector<double> steady{1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_DOUBLE_EQ(arrival_rate(steady, 8), 1);  // counts from 2 on, after the first quarter
    EXPECT_DOUBLE_EQ(arrival_rate(steady, 4), 1);
    const std::vector<double> faster_when_alone{1, 2, 3, 4, 4.25, 4.5, 4.75, 5};
    EXPECT_DOUBLE_EQ(arrival_rate(faster_when_alone, 4), 1);
    const std::vector<double> held_back{1, 2, 4.9, 4.9, 4.9, 6, 7, 8, 9, 10, 11, 12};  // a packet was lost after 2
    EXPECT_DOUBLE_EQ(arrival_rate(held_back, 12), 1);
    EXPECT_EQ(arrival_rate({}, 4), 0);
    EXPECT_EQ(arrival_rate({}, 0), 0);
}

}  // namespace

}  // namespace terrace::detail::bench::bench_links_test
