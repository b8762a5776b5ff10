// Execution plans of MSCCL++: proved by the verifier, and run by an independent interpreter.

#include <cstdlib>
#include <filesystem>
#include <map>

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

// Judges the plans of a directory, and runs each proved plan on threads 20 times. @returns verdicts by file
std::map<std::string, std::string> verdicts_of(const std::filesystem::path& directory) {
    std::map<std::string, std::string> verdicts;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        const std::string text = read_text(entry.path(), 64 << 20), name = entry.path().filename();
        const nlohmann::json plan = nlohmann::json::parse(text);
        std::string& verdict = verdicts[name] = "proved";
        const std::string refusal = refusal_of([&] {
            verdict = read_mscclpp(std::vector<named_text>{{name, text}}).fault().value_or("proved");
        });
        if (refusal != "accepted") verdict = refusal;
        for (int run = 0; verdict == "proved" && run < 20; ++run)
            EXPECT_EQ(run_on_threads(plan, plan.at("inplace"), seed() + static_cast<std::uint64_t>(run)), "") << name;
        fmt::print("{}: {}\n", name, verdict);
    }
    return verdicts;
}

// Plans with features that Terrace does not write: reads of peers' memory, groups of thread blocks.
TEST(mscclpp, samples_are_proved_and_run_on_threads) {
    const auto verdicts = verdicts_of(std::filesystem::path(TERRACE_SOURCE_ROOT) / "tests/fuzz/corpus/export-mscclpp");
    for (const std::string sample : {"groups.json", "reads_and_writes.json"}) EXPECT_EQ(verdicts.at(sample), "proved");
}

// TERRACE_MSCCLPP_PLANS is a directory of plans of other programs.
TEST(mscclpp, plans_of_others_do_as_they_are_judged) {
    const char* directory = std::getenv("TERRACE_MSCCLPP_PLANS");
    if (directory == nullptr) GTEST_SKIP() << "set TERRACE_MSCCLPP_PLANS to a directory of execution plans";
    EXPECT_FALSE(verdicts_of(directory).empty());
}

}  // namespace
}  // namespace terrace::detail::test
