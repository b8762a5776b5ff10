#include "machine/hierarchy_yaml.hpp"
#include "support/refusal.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

namespace terrace::detail::hierarchy_yaml_test {
namespace {

hierarchy read(const std::string& text) { return read_hierarchy(document::parse(text, "f")); }

std::string error_of(const std::string& text) {
    return refusal_of<input_error>([&] { read(text); });
}

TEST(hierarchy_yaml, reads_a_rate_for_each_child) {
    const std::string text =
        "levels:\n"
        "  - {name: node, fabric: shm, bandwidth: 10 GB/s, latency: 500 ns, assumed: [overhead]}\n"
        "  - {name: core, fabric: ethernet, bandwidth: [1 Gbit/s, 500 Mbit/s, 1 Gbit/s], latency: "
        "30 us, assumed: [overhead]}\n"
        "tree: [4, 2, 1]\n";
    const hierarchy h = read(text);
    EXPECT_EQ(h.rate(0, 3), 10e9);
    EXPECT_EQ(h.rate(1, 0), 125e6);
    EXPECT_EQ(h.rate(1, 1), 62.5e6);
    EXPECT_EQ(h.levels[1].bandwidth, 125e6);
    EXPECT_EQ(write_hierarchy(h, 0), text);
    // A part of the machine keeps its children's rates, as one rate if they are equal.
    EXPECT_EQ(part_of(h, std::vector{0, 1, 4}).levels[1].rates, (std::vector{125e6, 62.5e6}));
    EXPECT_TRUE(part_of(h, std::vector{0, 6}).levels[1].rates.empty());
    EXPECT_EQ(part_of(h, std::vector{4, 5}).levels[1].bandwidth, 62.5e6);
    const auto listed = [](const std::string& rates) {
        return error_of("levels: [{name: a, size: 2, fabric: shm, bandwidth: " + rates + "}]");
    };
    EXPECT_EQ(listed("[1 GB/s, 2 GB/s]"), "accepted");
    EXPECT_NE(listed("[1 GB/s]").find("1 bandwidths, but level \"a\" joins 2 children"), std::string::npos);
    EXPECT_NE(listed("[1 GB/s, cat]").find("\"cat\" is not a bandwidth"), std::string::npos);
    EXPECT_NE(listed("[]").find("empty"), std::string::npos);
}

TEST(hierarchy_yaml, reads_what_nccl_and_mpi_take_for_buffers_on_gpus) {
    const std::string text =
        "levels:\n"
        "  - {name: node, size: 8, fabric: nvlink, bandwidth: 450 GB/s, latency: 2 us, nccl: {stage: 12 us, bandwidth: "
        "380 "
        "GB/s}, assumed: [overhead]}\n"
        "  - {name: pod, size: 2, fabric: infiniband, bandwidth: 50 GB/s, latency: 3 us, nccl: {}, mpi: {step: 25 us}, "
        "assumed: [overhead]}\n";
    const hierarchy h = read(text);
    EXPECT_EQ(write_hierarchy(h, 0), text);
    EXPECT_EQ(nccl_rates(h.levels[0]).stage, 12e-6);
    EXPECT_DOUBLE_EQ(nccl_rates(h.levels[0]).step, 10e-6);  // the latency plus a kernel's time
    EXPECT_EQ(nccl_rates(h.levels[0]).bandwidth, 380e9);
    EXPECT_EQ(nccl_rates(h.levels[1]).bandwidth, 50e9);
    EXPECT_EQ(mpi_rates(h.levels[1]).step, 25e-6);
    EXPECT_EQ(mpi_rates(h.levels[1]).bandwidth, default_rates(fabric::pcie).bandwidth);  // through the host
    EXPECT_EQ(device_rates_text(h.levels[0]), "nccl: stage 12 us, step 10 us *, bandwidth 380 GB/s");
    EXPECT_EQ(device_rates_text(h.levels[1]),
              "nccl: stage 11 us *, step 11 us *, bandwidth 50 GB/s *; mpi: step 25 us, bandwidth 12 GB/s *");
    // Without rates for NCCL in the file, its messages have the level's rates.
    level plain = h.levels[0];
    plain.nccl.reset();
    EXPECT_EQ(nccl_rates(plain).step, plain.latency);
    EXPECT_EQ(device_rates_text(plain), "");
    const auto given = [](const std::string& what) {
        return error_of("levels: [{name: a, size: 2, fabric: nvlink, " + what + "}]");
    };
    EXPECT_EQ(given("nccl: {step: 9 us}"), "accepted");
    EXPECT_NE(given("mpi: {stage: 9 us}").find("stage"), std::string::npos);
    EXPECT_NE(given("nccl: {step: 0 s}").find("out of range"), std::string::npos);
    EXPECT_NE(given("nccl: {rate: 1 GB/s}").find("rate"), std::string::npos);
}

TEST(hierarchy_yaml, reads_sizes_and_rates) {
    const hierarchy h = read(
        "levels:\n"
        "  - {name: node, size: 3, fabric: shm, bandwidth: 10 GB/s, latency: 0.5 us}\n"
        "  - {name: core, size: 2, fabric: ethernet, bandwidth: 1 Gbit/s, overhead: 4 us, assumed: [bandwidth]}\n");
    EXPECT_EQ(h.shape, tree::uniform(std::vector<int>{3, 2}));
    const level& node = h.levels[0];
    EXPECT_EQ(node.name, "node");
    EXPECT_EQ(node.medium, fabric::shm);
    EXPECT_DOUBLE_EQ(node.bandwidth, 10e9);
    EXPECT_DOUBLE_EQ(node.latency, 0.5e-6);
    EXPECT_DOUBLE_EQ(node.overhead, default_rates(fabric::shm).overhead);
    EXPECT_FALSE(node.bandwidth_assumed || node.latency_assumed);
    EXPECT_TRUE(node.overhead_assumed);
    const level& core = h.levels[1];
    EXPECT_DOUBLE_EQ(core.bandwidth, 125e6);
    EXPECT_DOUBLE_EQ(core.latency, default_rates(fabric::ethernet).latency);
    EXPECT_TRUE(core.bandwidth_assumed && core.latency_assumed);
    EXPECT_FALSE(core.overhead_assumed);
}

TEST(hierarchy_yaml, what_ranks_compute_with_stands_beside_the_levels) {
    const std::string text =
        "levels:\n"
        "  - {name: node, size: 2, fabric: shm, bandwidth: 10 GB/s, latency: 500 ns, assumed: [overhead]}\n"
        "reduction: 68 Gbit/s\n"
        "segment: 192 KiB\n";
    EXPECT_EQ(read(text).processors, (processors{8.5e9, 192 << 10}));
    EXPECT_EQ(write_hierarchy(read(text), 0), text);
    EXPECT_EQ(read("levels: [{name: node, size: 2, fabric: shm}]").processors, processors{});
    EXPECT_EQ(error_of("levels: [{name: node, size: 2, fabric: shm}]\nreduction: 0.1 B/s").substr(0, 7), "f:2:12:");
    EXPECT_EQ(error_of("levels: [{name: node, size: 2, fabric: shm}]\nsegment: 0 B").substr(0, 7), "f:2:10:");
}

TEST(hierarchy_yaml, reads_trees) {
    const std::string levels =
        "levels: [{name: a, fabric: shm}, {name: b, fabric: ethernet}, {name: c, fabric: ethernet}]\n";
    EXPECT_EQ(read(levels + "tree: [[4, 2], [3, 3, 1]]").shape, tree({{4, 2, 3, 3, 1}, {2, 3}, {2}}));
    EXPECT_EQ(read("levels: [{name: a, fabric: shm}]\ntree: 4").shape, tree::uniform(std::vector<int>{4}));
}

TEST(hierarchy_yaml, writes_what_it_reads) {
    const std::string even =
        "  levels:\n"
        "    - {name: node, size: 3, fabric: shm, bandwidth: 10 GB/s, latency: 500 ns, assumed: [overhead]}\n"
        "    - {name: core, size: 2, fabric: ethernet, bandwidth: 1 Gbit/s, latency: 20 us, overhead: 4 us, assumed: "
        "[latency]}\n";
    EXPECT_EQ(write_hierarchy(read(even), 2), even);
    const std::string uneven =
        "levels:\n"
        "  - {name: node, fabric: shm, bandwidth: 10 GB/s, latency: 500 ns, assumed: [bandwidth, latency, overhead]}\n"
        "  - {name: core, fabric: infiniband, bandwidth: 100 Gbit/s, latency: 2 us, overhead: 9 us, assumed: "
        "[overhead]}\n"
        "tree: [3, 1]\n";
    EXPECT_EQ(write_hierarchy(read(uneven), 0), uneven);
}

TEST(hierarchy_yaml, rates_that_do_not_print_exactly_still_read_back_equal) {
    for (const std::string rate :
         {"123.456789 MiB/s", "31.50769231 GB/s", "999.9999999 MB/s", "1 B/s", "0.33333333 Gbit/s"}) {
        const hierarchy first =
            read("levels: [{name: a, size: 2, fabric: ethernet, bandwidth: " + rate + ", latency: 1.23456789 us}]");
        const hierarchy again = read(write_hierarchy(first, 0));
        EXPECT_EQ(again.levels[0].bandwidth, first.levels[0].bandwidth) << rate;
        EXPECT_EQ(again.levels[0].latency, first.levels[0].latency) << rate;
        EXPECT_EQ(write_hierarchy(again, 0), write_hierarchy(first, 0));
    }
}

TEST(hierarchy_yaml, errors_say_where_what_and_what_next) {
    struct refused {
        std::string text;
        std::string error;
    };
    const std::string a = "{name: a, fabric: shm}";
    const std::vector<refused> table{
        {"name: x", "f:1:1: \"levels\" is missing here"},
        {"levels: []", "f:1:9: a machine has at least one level"},
        {"levels: [{name: a, size: 2, fabric: ethr}]", "f:1:37: unknown fabric \"ethr\"; the fabrics are shm, nvlink,"},
        {"levels: [{name: a, size: 2, fabric: shm, bandwidth: 1 GBs}]", "f:1:53: \"1 GBs\" is not a bandwidth"},
        {"levels: [{name: a, size: 2, fabric: shm, bandwidth: 1e300 B/s}]", "out of range"},
        {"levels: [{name: a, size: 2, fabric: shm, latency: 1e9 s}]", "out of range"},
        {"levels: [{name: a, size: 0, fabric: shm}]", "f:1:26: \"0\" is not an integer from 1 to"},
        {"levels: [{name: 'a b', size: 2, fabric: shm}]", "f:1:17: \"a b\" cannot name a level"},
        {"levels: [{name: '', size: 2, fabric: shm}]", "f:1:17: \"\" cannot name a level"},
        {"levels: [{name: a, size: 2, fabric: shm, speed: 3}]", "f:1:42: unknown key \"speed\"; known here: name,"},
        {"levels: [{name: a, size: 2, fabric: shm, assumed: [name]}]", "f:1:52: \"name\" cannot be assumed"},
        {"levels: [{name: a, size: 2, fabric: shm}, {name: a, size: 2, fabric: shm}]",
         "f:1:50: two levels are named \"a\""},
        {"levels: [{name: a, size: 2, fabric: ethernet}, {name: b, size: 2, fabric: shm}]", "innermost first"},
        {"levels: [{name: a, size: 2, fabric: shm}, {name: b, fabric: shm}]",
         "level \"b\" has no size, unlike level \"a\""},
        {"levels: [" + a + "]", "give each level one, or add a tree"},
        {"levels: [{name: a, size: 2, fabric: shm}]\ntree: 2", "f:2:7: the levels have sizes already"},
        {"levels: [" + a + "]\ntree: [2]", "f:2:7: expected an integer"},
        {"levels: [" + a + ", {name: b, fabric: shm}]\ntree: 2", "f:2:7: expected a list"},
        {"levels: [" + a + ", {name: b, fabric: shm}]\ntree: []", "f:2:7: a domain of level \"b\" is empty"},
        {"levels: [" + a + ", {name: b, fabric: shm}]\ntree: [600000, 600000]", "f:2:16: more than 1048576 ranks"},
        {"levels: [{name: a, size: 1049, fabric: shm}, {name: b, size: 1000, fabric: shm}]", "more than 1048576 ranks"},
    };
    for (const refused& r : table)
        EXPECT_NE(error_of(r.text).find(r.error), std::string::npos) << r.text << ": " << error_of(r.text);
}

TEST(hierarchy_yaml, sixteen_levels_and_no_more) {
    std::string text = "levels:\n";
    for (int l = 0; l < max_levels; ++l) text += "  - {name: l" + std::to_string(l) + ", size: 1, fabric: shm}\n";
    EXPECT_EQ(error_of(text), "accepted");
    EXPECT_NE(error_of(text + "  - {name: x, size: 1, fabric: shm}\n").find("f:18:5: more than 16 levels"),
              std::string::npos);
}

}  // namespace
}  // namespace terrace::detail::hierarchy_yaml_test
