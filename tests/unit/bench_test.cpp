// terrace-bench without timing: what it counts, what data it checks with, what it says of its command line.

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/element_types.hpp"
#include "bench/device/device_links.hpp"
#include "bench/measure/bus.hpp"
#include "bench/measure/exact.hpp"
#include "bench/measure/flow.hpp"
#include "bench/measure/link_limits.hpp"
#include "bench/measure/links.hpp"
#include "bench/measure/partners.hpp"
#include "bench/measure/steal_time.hpp"
#include "bench/report/figures.hpp"
#include "bench/settings.hpp"
#include "kernels/reduce.hpp"
#include "machine/hierarchy_yaml.hpp"

namespace terrace::detail::bench::bench_test {

namespace {

// ---- sizes and rates ------------------------------------------------------------------------------------------------

TEST(bench_figures, counts_are_those_of_nccl_tests) {
    EXPECT_EQ(count_of(collective::allreduce, 1024, 4, 8), 256);
    EXPECT_EQ(count_of(collective::broadcast, 1030, 4, 8), 257);
    EXPECT_EQ(count_of(collective::reduce, 3, 4, 8), 0);
    // Blocks: a multiple of 16 bytes for each rank.
    EXPECT_EQ(count_of(collective::reduce_scatter, 1024, 4, 8), 32);
    EXPECT_EQ(count_of(collective::allgather, 1024 + 64, 4, 8), 32);
    EXPECT_EQ(count_of(collective::allgather, 1024, 2, 7), 72);  // 146 bytes each would do
    EXPECT_EQ(count_of(collective::allgather, 64, 8, 8), 0);
}

TEST(bench_figures, each_follows_every_other_equally_often) {
    for (const std::size_t n : {1u, 2u, 3u, 4u, 5u, 8u}) {
        const int rounds = static_cast<int>(n % 2 == 0 ? n : 2 * n);
        std::map<std::pair<std::size_t, std::size_t>, int> places, neighbours;
        for (int r = 0; r < rounds; ++r) {
            const std::vector<std::size_t> order = order_of_round(n, r);
            ASSERT_EQ(order.size(), n);
            for (std::size_t i = 0; i < n; ++i) ++places[{i, order[i]}];
            for (std::size_t i = 1; i < n; ++i) ++neighbours[{order[i - 1], order[i]}];
        }
        EXPECT_EQ(places.size(), n * n);
        EXPECT_EQ(neighbours.size(), n * (n - 1));
        const int each = rounds / static_cast<int>(n);
        for (const auto& [what, times] : places) EXPECT_EQ(times, each) << n;
        for (const auto& [what, times] : neighbours) EXPECT_EQ(times, each) << n;
    }
}

TEST(bench_figures, steal_time_is_what_the_kernel_counts) {
    const auto before = parse_processor_time("cpu  100 20 30 800 10 0 5 35 7 0\ncpu0 50 10 15 400 5 0 2 18 3 0\n");
    ASSERT_TRUE(before);
    EXPECT_EQ(before->all, 1000u);  // guests' time is in that of users
    EXPECT_EQ(before->steal, 35u);
    const auto after = parse_processor_time("cpu 110 20 40 855 10 0 5 60 7 0\n");
    EXPECT_DOUBLE_EQ(steal_time_part(before, after).value(), 25.0 / 100);
    EXPECT_FALSE(steal_time_part(before, before));
    EXPECT_FALSE(steal_time_part(std::nullopt, after));
    EXPECT_FALSE(parse_processor_time("cpu 1 2 3 4\n"));  // before Linux 2.6.11
    EXPECT_FALSE(parse_processor_time("intr 1 2 3 4 5 6 7 8\n"));
    EXPECT_FALSE(parse_processor_time(""));
}

TEST(bench_figures, bytes_are_those_of_the_larger_buffer) {
    EXPECT_EQ(bytes_of(collective::allreduce, 256, 4, 8), 1024);
    EXPECT_EQ(bytes_of(collective::reduce, 256, 8, 8), 2048);
    EXPECT_EQ(bytes_of(collective::reduce_scatter, 32, 4, 8), 1024);
    EXPECT_EQ(bytes_of(collective::allgather, 72, 2, 7), 1008);
}

TEST(bench_figures, bus_bandwidth) {
    EXPECT_DOUBLE_EQ(bus_factor(collective::allreduce, 8), 1.75);
    EXPECT_DOUBLE_EQ(bus_factor(collective::reduce_scatter, 8), 0.875);
    EXPECT_DOUBLE_EQ(bus_factor(collective::allgather, 4), 0.75);
    EXPECT_DOUBLE_EQ(bus_factor(collective::broadcast, 8), 1);
    EXPECT_DOUBLE_EQ(bus_factor(collective::reduce, 8), 1);
    EXPECT_DOUBLE_EQ(bus_factor(collective::allreduce, 1), 0);
}

TEST(bench_figures, quantiles_are_interpolated) {
    const std::array values{4.0, 1.0, 3.0, 2.0};
    EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
    EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
    EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);
    EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
    EXPECT_DOUBLE_EQ(quantile(std::array{7.0}, 0.99), 7);
}

// The median of ratios is not the ratio of medians: a disturbance of one iteration hits both of a pair.
TEST(bench_figures, ratios_are_paired) {
    const std::array ours{1.0, 10.0, 2.0}, theirs{2.0, 20.0, 4.0};
    EXPECT_EQ(paired_ratios(theirs, ours), (std::vector{2.0, 2.0, 2.0}));
}

TEST(bench_settings, sizes_go_up_by_a_factor_or_a_step) {
    settings s;
    s.begin = 8, s.end = 1000, s.factor = 4;
    EXPECT_EQ(s.counts(collective::allreduce, 8), (std::vector<std::int64_t>{2, 8, 32, 128}));
    s.end = 8 * 64;  // reached exactly
    EXPECT_EQ(s.counts(collective::allreduce, 8), (std::vector<std::int64_t>{2, 8, 32, 128}));
    s.begin = 4, s.end = 16, s.step = 3;  // sizes with as many elements as the one before are left out
    EXPECT_EQ(s.counts(collective::allreduce, 8), (std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST(bench_settings, sizes_without_blocks_are_left_out) {
    settings s;
    s.begin = 8, s.end = 1024, s.factor = 2;
    EXPECT_EQ(s.counts(collective::allgather, 8), (std::vector<std::int64_t>{4, 8, 16, 32}));
}

TEST(bench_settings, the_largest_size_does_not_overflow) {
    settings s;
    s.begin = 1, s.end = std::int64_t{1} << 62, s.factor = 1'000'000'000;
    EXPECT_EQ(s.counts(collective::allreduce, 2).size(), 2);
}

// ---- command line ---------------------------------------------------------------------------------------------------

std::variant<settings, answer> parsed(std::vector<const char*> words) {
    words.insert(words.begin(), "terrace-bench");
    return parse_settings(static_cast<int>(words.size()), words.data());
}

settings accepted(const std::vector<const char*>& words) {
    const auto result = parsed(words);
    const answer* a = std::get_if<answer>(&result);
    EXPECT_EQ(a, nullptr) << a->text;
    return a ? settings{} : std::get<settings>(result);
}

TEST(bench_settings, collectives_types_and_operations) {
    settings s = accepted({"--plan", "p"});
    EXPECT_EQ(s.collectives, std::vector{collective::allreduce});
    EXPECT_EQ(s.reference, "hierarchical");
    s = accepted({"--plan", "p", "--collective", "all", "-d", "half", "-o", "avg", "-r", "3"});
    EXPECT_EQ(s.collectives, std::vector(all_collectives.begin(), all_collectives.end()));
    EXPECT_EQ(s.type, element_type::float16);
    EXPECT_EQ(s.op, reduce_op::avg);
    EXPECT_EQ(s.root, 3);
    s = accepted({"--plan", "p", "--collective", "reduce,broadcast,reduce", "--algorithms", "mpi,staged"});
    EXPECT_EQ(s.collectives, (std::vector{collective::reduce, collective::broadcast}));
    EXPECT_EQ(s.reference, "mpi");
}

TEST(bench_settings, algorithms_suit_the_buffers) {
    const auto has = [](const settings& s, std::string_view name) {
        return std::find(s.algorithms.begin(), s.algorithms.end(), name) != s.algorithms.end();
    };
    const settings host = accepted({"--plan", "p"}), device = accepted({"--plan", "p", "--device", "cuda"});
    EXPECT_TRUE(has(host, "mpi") && has(host, "flat-ring") && !has(host, "nccl"));
    EXPECT_TRUE(has(device, "nccl") && has(device, "flat-ring") && !has(device, "mpi"));
}

TEST(bench_settings, mistakes_name_the_option_and_what_is_allowed) {
    struct mistake {
        std::vector<const char*> words;
        std::string message;
    };
    const std::vector<mistake> mistakes{
        {{}, "--plan"},
        {{"--collective", "scan"}, "--collective: scan is none of: all, allgather, allreduce"},
        {{"-d", "float8"}, "--datatype: float8 is none of: bfloat16, "},
        {{"-o", "xor"}, "--op: xor is none of: avg, band, bor, bxor, land, lor, lxor, max, min, premul_sum, prod, sum"},
        {{"-b", "9 apples"}, "--minbytes: 9 apples is no number of bytes"},
        {{"-b", "4", "-d", "double"}, "-b 4: less than one float64 (8 bytes)"},
        {{"-b", "64", "-e", "8"}, "-e 8 is less than -b 64"},
        {{"-e", "16G"}, "-e 17179869184: MPI counts at most 2147483647 elements"},
        {{"-i", "1"}, "-i 1: makes more than 10000 sizes"},
        {{"-i", "8", "-f", "2"}, "excludes"},
        {{"-w", "0"}, "-w 0 needs -n"},
        {{"-n", "0"}, "--iters"},
        {{"-r", "-1"}, "--root"},
        {{"--algorithms", "mpi,ring"}, "there is no algorithm ring; choose from hierarchical, "},
        {{"--algorithms", "mpi,mpi"}, "names one twice"},
        {{"--algorithms", "nccl"}, "--algorithms nccl: takes buffers on GPUs: --device cuda"},
        {{"--device", "rocm"}, "--device: rocm is none of: cuda, host"},
        {{"--device", "cuda", "--algorithms", "mpi"},
         "--algorithms mpi: takes buffers of the host; leave it out, or --device"},
        {{"--staging"}, "--staging is for buffers on GPUs: --device cuda"},
        {{"--graph"}, "--graph is for buffers on GPUs: --device cuda"},
        {{"--device", "cuda", "--staging", "--graph"}, "--graph: the host takes part in each call of --staging"},
        {{"--device", "cuda", "--graph", "-w", "0", "-n", "1"}, "--graph needs -w"},
        {{"--device", "cuda", "--buffers", "window"}, "--buffers window: is memory of the host"},
        {{"--algorithms", "mpi", "--reference", "staged"}, "--reference staged: is not among --algorithms mpi"},
        {{"--fast"}, "--fast"},
    };
    for (const mistake& m : mistakes) {
        std::vector<const char*> words = m.words;
        if (!words.empty()) words.insert(words.begin(), {"--plan", "p"});
        const auto result = parsed(words);
        ASSERT_TRUE(std::holds_alternative<answer>(result)) << m.message;
        EXPECT_EQ(std::get<answer>(result).exit_code, 2);
        EXPECT_NE(std::get<answer>(result).text.find(m.message), std::string::npos) << std::get<answer>(result).text;
    }
}

// ---- the bus --------------------------------------------------------------------------------------------------------

TEST(bench_bus, the_limit_is_of_the_rank_that_copies_most) {
    const bus_rates bus{.in = 50e9, .out = 40e9, .both = 60e9};
    constexpr std::int64_t bytes = 1'200'000'000;
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::allreduce, bytes, 4), 2.4 / 60);  // in and out at once
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::reduce, bytes, 4), 2.4 / 60);
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::broadcast, bytes, 4), 1.2 / 40);  // no rank does both
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::reduce_scatter, bytes, 4), 1.5 / 60);
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::reduce_scatter, bytes, 100), 1.2 / 50);
    EXPECT_DOUBLE_EQ(bus_limit(bus, collective::allgather, bytes, 100), 1.2 / 40);
}

// ---- links ----------------------------------------------------------------------------------------------------------

// Of the slowest link.
TEST(bench_links, idle_links_let_bursts_pass_again) {
    const hierarchy h = read_hierarchy(document::parse(
        "levels:\n  - {name: node, size: 2, fabric: shm}\n  - {name: cluster, size: 2, fabric: ethernet, bandwidth: "
        "[1 GB/s, 0.5 GB/s], latency: 1 us}\n",
        "two nodes"));
    const std::vector<std::optional<double>> measured{{}, 1e9};
    EXPECT_DOUBLE_EQ(link_limits(h, measured, 1'000'000).refill_time(2 << 20), 0.002);
    EXPECT_DOUBLE_EQ(link_limits(h, measured, 1'000'000).refill_time(125'001), 0.002);
    EXPECT_EQ(link_limits(h, measured, 1'000'000).refill_time(125'000), 0) << "short calls follow one another";
    EXPECT_EQ(link_limits(h, measured, 0).refill_time(2 << 20), 0);
    EXPECT_EQ(link_limits(h, {}, 1'000'000).refill_time(2 << 20), 0) << "no goodput";
}

// Nodes of 4 and 2 NICs. The smaller node sets the limit of an allreduce: N over its NICs, and two bursts are free.
TEST(bench_links, each_nic_lets_a_burst_pass) {
    const hierarchy h = read_hierarchy(document::parse(
        "levels:\n  - {name: node, fabric: shm}\n  - {name: cluster, fabric: ethernet, nics: {count: [4, 2], "
        "bandwidth: 100 MB/s}, latency: 1 us}\ntree: [4, 2]\n",
        "uneven nics"));
    const std::vector<std::optional<double>> measured{{}, 400e6};  // of the faster node, as the file says it
    const link_limits limits(h, measured, 1'000'000);
    EXPECT_DOUBLE_EQ(limits.refill_time(2 << 20), 0.01);
    constexpr std::int64_t bytes = 10'000'000;
    EXPECT_NEAR(*limits.percent_of_goodput(collective::allreduce, bytes, 0.04), 100, 1e-9);
    EXPECT_NEAR(*limits.percent_of_goodput(collective::broadcast, bytes, 0.04), 100, 1e-9);
}

TEST(bench_links, what_was_measured_takes_the_place_of_what_the_file_says) {
    const hierarchy before =
        read_hierarchy(document::parse("levels:\n"
                                       "  - {name: node, size: 2, fabric: shm}\n"
                                       "  - {name: shelf, size: 1, fabric: ethernet, latency: 7 us}\n"
                                       "  - {name: core, size: 3, fabric: ethernet, bandwidth: 1 Gbit/s}\n",
                                       "f"));
    const measured_level node{{1e-6, 9e9, 0.4e-6}, {0, 3e9, 0.9e-6}};
    const measured_level core{{30e-6, 119e6, 34e-6}, {0, 118e6, 60e-6}};  // less than its own overhead
    const hierarchy after = calibrated(before, {{node, {}, core}, 4e9, 9e9});
    EXPECT_EQ(after.shape, before.shape);
    EXPECT_DOUBLE_EQ(after.levels[0].bandwidth, 3e9);   // of all pairs at once
    EXPECT_DOUBLE_EQ(after.levels[0].latency, 0.6e-6);  // of one pair, without its overhead
    EXPECT_DOUBLE_EQ(after.levels[0].overhead, 0.9e-6);
    EXPECT_FALSE(after.levels[0].bandwidth_assumed || after.levels[0].latency_assumed);
    EXPECT_FALSE(after.levels[0].overhead_assumed);
    EXPECT_DOUBLE_EQ(after.levels[1].latency, 7e-6);  // joins nothing
    EXPECT_TRUE(after.levels[1].bandwidth_assumed);
    EXPECT_EQ(after.levels[2].latency, 0);
    EXPECT_DOUBLE_EQ(after.processors.reduction, 4e9);

    EXPECT_EQ(after.processors.cores, 0);
    // Where all ranks share cores they are charged together, each for what it takes alone.
    const hierarchy shared = calibrated(before, {{node, {}, core}, 4e9, 9e9, 2});
    EXPECT_DOUBLE_EQ(shared.levels[0].overhead, 0.4e-6);
    EXPECT_DOUBLE_EQ(shared.levels[2].overhead, 34e-6);
    EXPECT_EQ(shared.processors.cores, 2);

    const std::string text = links_text(before, {{node, {}, core}, 4e9, 9e9}, after);
    EXPECT_NE(text.find("10 GB/s (assumed)"), text.npos) << text;
    EXPECT_NE(text.find("3 GB/s"), text.npos) << text;
    EXPECT_NE(text.find("reduction"), text.npos) << text;
}

// Two nodes of three and one rank in a rack, one of two in another; the world has them backwards.
TEST(bench_links, partners_are_in_neighbouring_children) {
    const tree shape({{3, 1, 2}, {2, 1}, {2}});
    const std::vector<int> ranks{5, 4, 3, 2, 1, 0};
    using all = std::vector<std::vector<int>>;
    EXPECT_EQ(fellows(shape, 0, ranks), (all{{5, 4, 3}, {1, 0}}));
    EXPECT_EQ(fellows(shape, 1, ranks), (all{{5, 2}}));
    EXPECT_EQ(fellows(shape, 2, ranks), (all{{5, 1}, {4, 0}}));
    constexpr int none = nobody;
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
    EXPECT_DOUBLE_EQ(after.levels[0].mpi->step, 1e-9);  // less than that
    EXPECT_DOUBLE_EQ(after.levels[0].bandwidth, before.levels[0].bandwidth);
    EXPECT_DOUBLE_EQ(after.levels[1].nccl->step, 7e-6);  // joins nothing
    EXPECT_FALSE(after.levels[1].mpi);
    EXPECT_DOUBLE_EQ(after.levels[2].mpi->step, 12.5e-6);
    EXPECT_DOUBLE_EQ(after.levels[2].mpi->bandwidth, 11e9);
    EXPECT_EQ(after.levels[2].mpi->stage, 0);

    const std::string text = links_text(before, found, after);
    for (const char* part : {"12 us", "14 us", "400 GB/s", "22 us (assumed)", "core", "-"})
        EXPECT_NE(text.find(part), text.npos) << part << '\n' << text;
}

// Four streams share a link; the one that ends first ends the time that counts.
TEST(bench_links, rates_are_those_while_all_streams_run) {
    const std::vector<double> steady{1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_DOUBLE_EQ(arrival_rate(steady, 8), 1);  // 3 to 8, after the first quarter
    EXPECT_DOUBLE_EQ(arrival_rate(steady, 4), 1);
    const std::vector<double> faster_when_alone{1, 2, 3, 4, 4.25, 4.5, 4.75, 5};
    EXPECT_DOUBLE_EQ(arrival_rate(faster_when_alone, 4), 1);
    EXPECT_EQ(arrival_rate({}, 4), 0);
    EXPECT_EQ(arrival_rate({}, 0), 0);
}

TEST(bench_links, command_line) {
    const auto parse = [](std::vector<const char*> words) {
        words.insert(words.begin(), {"terrace-bench", "--links"});
        return parse_links_settings(static_cast<int>(words.size()), words.data());
    };
    const auto good = parse({"--topology", "c.yaml", "-o", "n.yaml"});
    ASSERT_TRUE(std::holds_alternative<links_settings>(good));
    EXPECT_EQ(std::get<links_settings>(good).output_file, "n.yaml");
    using line = std::vector<const char*>;
    for (const line& words : {line{}, line{"--topology", "c.yaml", "--plan", "p"}}) {
        const auto bad = parse(words);
        ASSERT_TRUE(std::holds_alternative<answer>(bad));
        EXPECT_EQ(std::get<answer>(bad).exit_code, 2);
        EXPECT_NE(std::get<answer>(bad).text.find("--links --help"), std::string::npos);
    }
}

// ---- exact data -----------------------------------------------------------------------------------------------------

constexpr std::int64_t elements = 2500;  // more than two periods of the data

using bytes = std::vector<std::byte>;

// Reduces in groups of `group`, then their results.
bytes reduced(const std::vector<bytes>& inputs, element_type type, reduce_op op, std::size_t group) {
    const auto combine = [&](const std::vector<bytes>& parts, int divisor) {
        if (parts.size() == 1) return parts.front();
        std::vector<const void*> sources;
        for (const bytes& p : parts) sources.push_back(p.data());
        bytes result(parts.front().size());
        find_reduce(type, op)(result.data(), sources.data(), static_cast<int>(sources.size()), elements, divisor);
        return result;
    };
    const int divisor = op == reduce_op::avg ? static_cast<int>(inputs.size()) : 1;
    std::vector<bytes> parts;
    for (std::size_t i = 0; i < inputs.size(); i += group)
        parts.push_back(combine({inputs.begin() + static_cast<std::ptrdiff_t>(i),
                                 inputs.begin() + static_cast<std::ptrdiff_t>(std::min(i + group, inputs.size()))},
                                group >= inputs.size() ? divisor : 1));
    return combine(parts, divisor);
}

using pair = std::pair<element_type, reduce_op>;

std::vector<pair> defined_pairs() {
    std::vector<pair> pairs;
    for (const element_type type : all_element_types)
        for (const reduce_op op : all_reduce_ops)
            if (is_defined(op, type)) pairs.emplace_back(type, op);
    return pairs;
}

class exact_of : public testing::TestWithParam<std::tuple<pair, int>> {
protected:
    element_type type = std::get<0>(GetParam()).first;
    reduce_op op = std::get<0>(GetParam()).second;
    int ranks = std::get<1>(GetParam());
    exact_data data{type, op, ranks - 1, ranks};
    std::vector<bytes> inputs;

    void SetUp() override {
        for (int r = 0; r < ranks; ++r) {
            const bytes tile = data.input_of(r);
            for (bytes& all = inputs.emplace_back(); all.size() < elements * size_of(type);)
                all.insert(all.end(), tile.begin(), tile.end());
        }
    }
};

TEST_P(exact_of, any_grouping_gives_the_expected_result) {
    for (const std::size_t group : {2, 3, ranks}) {
        const bytes result = reduced(inputs, type, op, group);
        EXPECT_EQ(data.wrong_results(result.data(), 0, elements), 0) << "in groups of " << group;
        const std::int64_t first = 1100;  // a block's results
        EXPECT_EQ(data.wrong_results(result.data() + first * size_of(type), first, elements - first), 0);
    }
}

TEST_P(exact_of, faults_show) {
    bytes result = reduced(inputs, type, op, 2);
    bytes changed = result;
    changed[1500 * size_of(type)] ^= std::byte{1};
    EXPECT_EQ(data.wrong_results(changed.data(), 0, elements), 1);
    const bool flat = op == reduce_op::min || op == reduce_op::max || (op == reduce_op::avg && size_of(type) == 1);
    if (ranks > 8 && flat) return;  // nearly every element of the result is the same
    EXPECT_GT(data.wrong_results(result.data() + size_of(type), 0, elements - 1), elements / 4) << "moved by one";
    std::vector<bytes> others = inputs;
    others.back() = others.front();
    EXPECT_GT(data.wrong_results(reduced(others, type, op, 2).data(), 0, elements), 0) << "one twice, one left out";
    data.spoil(result.data(), elements);
    EXPECT_GT(data.wrong_results(result.data(), 0, elements), elements / 2);
}

TEST_P(exact_of, rounded_results_are_near) {
    if (!is_real(type) || op != reduce_op::sum) return;
    const bytes result = reduced(inputs, type, op, 2);
    EXPECT_EQ(data.wrong_results(result.data(), 0, elements, 0.01), 0);
    bytes less = result;
    with_type(type, [&]<class T>(std::type_identity<T>) {
        if constexpr (is_real(element_type_of<T>)) {
            const T none(0.0f);
            std::memcpy(less.data() + 10 * sizeof(T), &none, sizeof(T));
        }
    });
    EXPECT_EQ(data.wrong_results(less.data(), 0, elements, 1e-9), 1);
    EXPECT_EQ(data.wrong_results(less.data(), 0, elements, 2), 0);
    data.spoil(less.data(), elements);
    EXPECT_EQ(data.wrong_results(less.data(), 0, elements, 2), elements) << "no numbers";
}

TEST_P(exact_of, inputs_tell_ranks_apart) {
    bytes own(elements * size_of(type));
    data.fill(own.data(), elements);
    EXPECT_EQ(data.wrong_inputs(ranks - 1, own.data(), elements), 0);
    EXPECT_EQ(data.wrong_inputs(ranks - 1, inputs.back().data(), elements), 0);
    EXPECT_GT(data.wrong_inputs(ranks - 1, inputs.front().data(), elements), 0);
}

std::string name_of(const testing::TestParamInfo<std::tuple<pair, int>>& info) {
    const auto [of, ranks] = info.param;
    const auto [type, op] = of;
    return std::string(to_string(type)) + "_" + std::string(to_string(op)) + "_" + std::to_string(ranks);
}

// 300 ranks: more than bfloat16, uint8 and int8 can count.
INSTANTIATE_TEST_SUITE_P(all, exact_of,
                         testing::Combine(testing::ValuesIn(defined_pairs()), testing::Values(2, 3, 8, 300)), name_of);

}  // namespace

}  // namespace terrace::detail::bench::bench_test
