// Execution plans of MSCCL++: proved, and run by another interpreter.

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text_file.hpp"
#include "exports/mscclpp_threads.hpp"
#include "exports/random_calls.hpp"
#include "support/effort.hpp"
#include "support/refusal.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail::test {
namespace {

TEST(mscclpp, plans_are_proved_and_run_on_threads) {
    dice d(seed());
    const int calls = share("plans", 300, 60);
    int written = 0;
    for (int n = 0; n < calls; ++n) {
        const random_call call = make_call(d, export_format_of("mscclpp").holds);
        SCOPED_TRACE(call.name());
        std::vector<std::string> texts;
        const std::string refusal = refusal_of([&] { texts = mscclpp_plan(call.plan, call.what, call.bytes).texts; });
        if (refusal != "accepted") {
            EXPECT_TRUE(refusal.find("--to mscclpp") != std::string::npos) << refusal;
            continue;
        }
        ++written;
        EXPECT_EQ(read_mscclpp(std::vector<named_text>{{"plan", texts[0]}}).fault().value_or("proved"), "proved");
        const nlohmann::json plan = nlohmann::json::parse(texts[0]);
        for (const bool in_place : {false, true}) EXPECT_EQ(run_on_threads(plan, in_place, d.roll()), "");
    }
    EXPECT_GT(written, calls * 3 / 4);
}

// TERRACE_MSCCLPP_PLANS is a directory of plans that others wrote.
TEST(mscclpp, plans_of_others_do_as_they_are_judged) {
    const char* directory = std::getenv("TERRACE_MSCCLPP_PLANS");
    if (directory == nullptr) GTEST_SKIP() << "set TERRACE_MSCCLPP_PLANS to a directory of execution plans";
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        const std::string text = read_text(entry.path(), 64 << 20);
        const nlohmann::json plan = nlohmann::json::parse(text);
        std::string verdict = "proved";
        const std::string refusal = refusal_of([&] {
            verdict = read_mscclpp(std::vector<named_text>{{entry.path().filename(), text}}).fault().value_or("proved");
        });
        if (refusal != "accepted") verdict = refusal;
        fmt::print("{}: {}\n", entry.path().filename().string(), verdict);
        for (int run = 0; verdict == "proved" && run < 20; ++run)
            EXPECT_EQ(run_on_threads(plan, plan.at("inplace"), seed() + static_cast<std::uint64_t>(run)), "");
    }
}

}  // namespace
}  // namespace terrace::detail::test
