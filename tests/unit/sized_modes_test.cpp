// The drop-in's choice of MPI or Terrace by the size of a call, as the TERRACE_PMPI* variables set it.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pmpi/sized_modes.hpp"
#include "pmpi/variables.hpp"
#include "support/refusal.hpp"

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

TEST(drop_in_variables, are_one_for_each_call_that_it_may_run) {
    const auto exists = [](std::string_view name) {
        return std::ranges::find(pmpi::drop_in_variables(), name, &variable::name) != pmpi::drop_in_variables().end();
    };
    EXPECT_TRUE(exists("TERRACE_PMPI_REDUCE_SCATTER_BLOCK"));
    EXPECT_TRUE(std::ranges::is_sorted(pmpi::drop_in_variables(), {}, &variable::name));
    for (std::size_t k = 0; k < pmpi::call_kinds; ++k) {
        const auto what = static_cast<pmpi::call_kind>(k);
        EXPECT_EQ(exists(pmpi::variable_of(what)), !pmpi::passes(what)) << pmpi::variable_of(what);
    }
}

TEST(drop_in_variables, are_checked) {
    using lines = std::vector<std::string>;
    const auto check = [](const std::string& entry) { return pmpi::check_drop_in_variables(lines{entry}); };
    EXPECT_EQ(check("TERRACE_PMPI_BCAST=on:64K-,off"), lines{});
    EXPECT_EQ(check("TERRACE_PLN=1"), lines{});  // the library checks this one
    EXPECT_EQ(check("TERRACE_PMPI_BCSAT=on"),
              lines{"TERRACE_PMPI_BCSAT is unknown to Terrace and has no effect; did you mean TERRACE_PMPI_BCAST?"});
    const std::string refusal = refusal_of([&] { check("TERRACE_PMPI_BCAST=on:4K"); });
    EXPECT_NE(refusal.find("TERRACE_PMPI_BCAST is \"on:4K\"; allowed: auto, on or off"), std::string::npos) << refusal;
}

}  // namespace terrace::detail::test::sized_modes_test
