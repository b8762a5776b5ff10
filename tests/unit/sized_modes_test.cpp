// Who runs which sizes of a call under the drop-in, as TERRACE_PMPI* say it.

#include <gtest/gtest.h>

#include "base/sized_modes.hpp"

namespace terrace::detail::test::sized_modes_test {

namespace {

constexpr std::int64_t kib = 1024;

std::string_view runs(std::string_view text, std::int64_t bytes) {
    const auto modes = parse_modes(text);
    return modes ? to_string(mode_of(*modes, bytes)) : "refused";
}

}  // namespace

TEST(sized_modes, a_word_is_of_all_sizes) {
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, INT64_MAX}) {
        EXPECT_EQ(runs("on", bytes), "on");
        EXPECT_EQ(runs("off", bytes), "off");
        EXPECT_EQ(runs("auto", bytes), "auto");
    }
}

TEST(sized_modes, both_ends_of_sizes_belong_to_them) {
    EXPECT_EQ(runs("on:4K-64K,off", 4 * kib - 1), "off");
    EXPECT_EQ(runs("on:4K-64K,off", 4 * kib), "on");
    EXPECT_EQ(runs("on:4K-64K,off", 64 * kib), "on");
    EXPECT_EQ(runs("on:4K-64K,off", 64 * kib + 1), "off");
}

TEST(sized_modes, an_end_may_be_left_out) {
    EXPECT_EQ(runs("off:-64K,on", 0), "off");
    EXPECT_EQ(runs("off:-64K,on", 64 * kib + 1), "on");
    EXPECT_EQ(runs("on:1M-,off", INT64_MAX), "on");
    EXPECT_EQ(runs("on:-,off", 7), "on");
}

TEST(sized_modes, the_first_that_fits_counts) {
    EXPECT_EQ(runs("off:-8K,on:4K-64K", 8 * kib), "off");
    EXPECT_EQ(runs("on,off", 1), "on");
}

TEST(sized_modes, a_size_that_none_names_is_tried) { EXPECT_EQ(runs("on:1M-", kib), "auto"); }

TEST(sized_modes, other_words_are_refused) {
    for (const std::string_view text : {"", "fast", "On", "on,", ",on", "on:", "on:4K", "on:x-4K", "on:4K-x",
                                        "on:8K-4K", "on:-1-4", "on off", "on:4K-64K:off"})
        EXPECT_EQ(runs(text, 1), "refused") << text;
}

}  // namespace terrace::detail::test::sized_modes_test
