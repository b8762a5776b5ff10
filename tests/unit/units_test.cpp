#include "base/units.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/partition.hpp"

namespace terrace::detail::units_test {
namespace {

TEST(units, bandwidth) {
    struct row {
        std::string_view text;
        double rate;
    };
    for (const row& r : std::vector<row>{{"10 GB/s", 10e9},
                                         {"10GB/s", 10e9},
                                         {"1 Gbit/s", 125e6},
                                         {"500 Mbit/s", 62.5e6},
                                         {"1 KiB/s", 1024},
                                         {"1 Kibit/s", 128},
                                         {"500 MiB/s", 500.0 * (1 << 20)},
                                         {"2 TB/s", 2e12},
                                         {"8 bit/s", 1},
                                         {"10 Gbps", 1.25e9},
                                         {"10 GBps", 10e9},
                                         {"3 B/s", 3},
                                         {"1.5 kB/s", 1500}}) {
        const auto parsed = parse_bandwidth(r.text);
        EXPECT_DOUBLE_EQ(parsed.value_or(-1), r.rate) << r.text;
    }
    for (const std::string_view text : {"", "GB/s", "10", "10 GB", "10 gb/s", "10 Gb/s", "-1 GB/s", "0 GB/s",
                                        "nan GB/s", "inf GB/s", "1e999 B/s", "10 GB/s x", "1,5 GB/s", "KB/s"})
        EXPECT_FALSE(parse_bandwidth(text)) << text;
}

TEST(units, duration) {
    EXPECT_DOUBLE_EQ(parse_duration("30 us").value(), 30e-6);
    EXPECT_DOUBLE_EQ(parse_duration("0.5us").value(), 0.5e-6);
    EXPECT_DOUBLE_EQ(parse_duration("7 ns").value(), 7e-9);
    EXPECT_DOUBLE_EQ(parse_duration("2 ms").value(), 2e-3);
    EXPECT_DOUBLE_EQ(parse_duration("0 s").value(), 0);
    for (const std::string_view text : {"", "30", "us", "-1 us", "30 min", "nan s", "1 us us"})
        EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(units, bytes) {
    EXPECT_EQ(parse_bytes("4096"), 4096);
    EXPECT_EQ(parse_bytes("32 KiB"), 32 << 10);
    EXPECT_EQ(parse_bytes("64MiB"), 64 << 20);
    EXPECT_EQ(parse_bytes("10 MB"), 10'000'000);
    EXPECT_EQ(parse_bytes("0.5 KiB"), 512);
    EXPECT_EQ(parse_bytes("1K", true), 1024);
    EXPECT_EQ(parse_bytes("2G", true), std::int64_t{2} << 30);
    for (const auto& [text, bytes] : {std::pair{"1m", 1 << 20},
                                      {"1M", 1 << 20},
                                      {"1Mi", 1 << 20},
                                      {"1mib", 0},
                                      {"4KB", 4000},
                                      {"4kB", 4000},
                                      {"4kiB", 4096},
                                      {"4KiB", 4096},
                                      {"1mB", 1'000'000}})
        EXPECT_EQ(parse_bytes(text, true).value_or(0), bytes) << text;
    EXPECT_EQ(parse_bandwidth("1 gbit/s"), parse_bandwidth("1 Gbit/s"));
    for (const std::string_view text : {"", "1K", "0.3", "-1", "1e30", "KiB", "1 kbit", "5 K B"})
        EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(units, what_is_printed_parses_to_the_same) {
    for (double rate = 1; rate < 1e14; rate *= 1.37) {
        const double read = parse_bandwidth(format_bandwidth(rate)).value();
        EXPECT_NEAR(read / rate, 1, 1e-5) << rate;
        EXPECT_EQ(format_bandwidth(read), format_bandwidth(rate));
    }
    for (double seconds = 1e-9; seconds < 1e3; seconds *= 1.37) {
        const double read = parse_duration(format_duration(seconds)).value();
        EXPECT_NEAR(read / seconds, 1, 1e-3) << seconds;
        EXPECT_EQ(format_duration(read), format_duration(seconds));
    }
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1023}, std::int64_t{1} << 10,
                                     std::int64_t{3} << 20, (std::int64_t{1} << 40) + 1})
        EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
    EXPECT_EQ(format_duration(-0.0515), "-51.5 ms");
}

TEST(partition, covers_in_order_and_is_balanced_within_a_quantum) {
    for (const std::int64_t begin : {0, 5, 64})
        for (const std::int64_t count : {0, 1, 2, 3, 7, 16, 100, 1001})
            for (const int parts : {1, 2, 3, 4, 7, 16, 24})
                for (const std::int64_t quantum : {1, 2, 16, 64}) {
                    SCOPED_TRACE(testing::Message() << begin << "+" << count << " / " << parts << " by " << quantum);
                    const range whole{begin, begin + count};
                    std::int64_t reached = whole.begin;
                    for (int i = 0; i < parts; ++i) {
                        const range part = partition(whole, parts, i, quantum);
                        ASSERT_EQ(part.begin, reached);
                        ASSERT_LE(part.begin, part.end);
                        ASSERT_TRUE(part.end == whole.begin || part.end == whole.end || part.end % quantum == 0);
                        ASSERT_LE(std::abs(part.count() - count / parts), quantum);
                        reached = part.end;
                    }
                    ASSERT_EQ(reached, whole.end);
                }
}

TEST(partition, huge_ranges_do_not_overflow) {
    const range whole{0, std::int64_t{1} << 61};
    EXPECT_EQ(partition(whole, 1'000'000, 999'999).end, whole.end);
    EXPECT_EQ(partition(whole, 4, 1), (range{whole.end / 4, whole.end / 2}));
}

TEST(partition, arithmetic_around_it) {
    EXPECT_EQ(wrap(-1, 5), 4);
    EXPECT_EQ(wrap(-10, 5), 0);
    EXPECT_EQ(wrap(7, 5), 2);
    EXPECT_EQ(div_ceil(7, 3), 3);
    EXPECT_EQ(div_ceil(6, 3), 2);
    EXPECT_EQ(round_up(7, 4), 8);
    EXPECT_EQ(round_up(8, 4), 8);
    EXPECT_EQ(ceil_log2(1), 0);
    EXPECT_EQ(ceil_log2(5), 3);
    EXPECT_EQ(ceil_log2(8), 3);
}

}  // namespace
}  // namespace terrace::detail::units_test
