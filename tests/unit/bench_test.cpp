// terrace-bench without timing: sizes, rates and statistics, and errors of the command line.

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "bench/measure/processors.hpp"
#include "bench/report/figures.hpp"
#include "bench/settings.hpp"

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
    EXPECT_EQ(before->all, 1000u);  // user time includes guest time
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

// The median of ratios is used, not the ratio of medians, since a disturbance affects both times of a pair.
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
    s.begin = 4, s.end = 16, s.step = 3;  // omits sizes with the same number of elements as the previous size
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
        {{"--algorithms", "mpi,ring"}, "ring is no algorithm; choose from hierarchical, "},
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
        {{"--device", "cuda", "--in-turn"}, "--in-turn: takes buffers of the host"},
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

}  // namespace

}  // namespace terrace::detail::bench::bench_test
