// Plans that jobs keep for later jobs on an equal machine.

#include "api/creation/plan_cache.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text_file.hpp"
#include "planner/planner.hpp"
#include "support/planner_machines.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::plan_cache_test {
namespace {

namespace fs = std::filesystem;

// A cache in an empty directory, and the number of plans made.
class cache_of_test {
public:
    explicit cache_of_test(std::size_t most = 64) : cache_(directory(), most) {}

    plan_data plan_for(const hierarchy& machine) {
        return cache_.find_or_make(
            "job", machine, [&] { return ++made, make_plan("job", machine); },
            [&](std::string_view line) { warnings.emplace_back(line); });
    }
    std::vector<fs::path> files() const {
        std::vector<fs::path> all;
        for (const fs::directory_entry& e : fs::directory_iterator(directory())) all.push_back(e.path());
        return all;
    }
    fs::path directory() const { return parent_.path() / "plans"; }

    int made = 0;
    std::vector<std::string> warnings;

private:
    temporary_directory parent_;
    plan_cache cache_;
};

TEST(plan_cache, a_plan_is_made_once) {
    cache_of_test cache;
    const plan_data first = cache.plan_for(test::two_racks()), second = cache.plan_for(test::two_racks());
    EXPECT_EQ(cache.made, 1);
    EXPECT_EQ(first.text, second.text);
    EXPECT_EQ(first.id, second.id);
    EXPECT_TRUE(second.file.empty());
    EXPECT_EQ(cache.files().size(), 1U);
    EXPECT_TRUE(cache.warnings.empty());
}

TEST(plan_cache, kept_plans_are_of_machines_of_the_same_shape_and_rates) {
    kept_plans kept;
    EXPECT_FALSE(kept.find("job", test::two_racks()));
    kept.keep(make_plan("first", test::two_racks()));
    hierarchy renamed = test::two_racks();
    renamed.hosts = {"a", "b", "c", "d"};
    const std::optional<plan_data> found = kept.find("job", renamed);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name, "job");
    EXPECT_EQ(found->machine.hosts, renamed.hosts);
    hierarchy faster = test::two_racks();
    faster.levels.back().bandwidth *= 2;
    EXPECT_FALSE(kept.find("job", faster));
}

TEST(plan_cache, machines_are_told_apart_by_shape_and_rates_and_not_by_hosts) {
    cache_of_test cache;
    hierarchy machine = test::two_racks();
    machine.hosts = {"a", "b", "c", "d"};
    const std::string rules = cache.plan_for(machine).text;
    machine.hosts = {"e", "f", "g", "h"};
    const plan_data renamed = cache.plan_for(machine);
    EXPECT_EQ(cache.made, 1);
    EXPECT_EQ(renamed.machine.hosts, machine.hosts);
    EXPECT_NE(renamed.text, rules);
    machine.levels[1].latency *= 2;
    cache.plan_for(machine);
    machine.processors.reduction = 5e9;
    cache.plan_for(machine);
    cache.plan_for(test::two_nodes());
    EXPECT_EQ(cache.made, 4);
}

TEST(plan_cache, broken_files_are_made_anew) {
    cache_of_test cache;
    const std::string text = cache.plan_for(test::two_nodes()).text;
    const fs::path file = cache.files().front();
    for (const std::string& content :
         {std::string(), text.substr(0, text.size() / 2), make_plan("x", test::network(2)).text}) {
        std::ofstream(file) << content;
        EXPECT_EQ(cache.plan_for(test::two_nodes()).text, text);
        EXPECT_EQ(read_text(file, 1 << 20), text);
    }
    EXPECT_EQ(cache.made, 4);
}

TEST(plan_cache, the_least_recently_used_is_removed) {
    cache_of_test cache(2);
    std::ofstream((fs::create_directories(cache.directory()), cache.directory() / "mine.plan.yaml"))
        << "not the cache's";
    const auto age = [&](int hours) {  // makes all files older
        for (const fs::path& f : cache.files())
            fs::last_write_time(f, fs::last_write_time(f) - std::chrono::hours(hours));
    };
    cache.plan_for(test::network(2));
    age(1);
    cache.plan_for(test::network(3));
    age(1);
    cache.plan_for(test::network(2));  // used again
    cache.plan_for(test::network(4));
    EXPECT_EQ(cache.files().size(), 3U) << "two plans and the file of another";
    cache.plan_for(test::network(2));
    EXPECT_EQ(cache.made, 3);
    cache.plan_for(test::network(3));
    EXPECT_EQ(cache.made, 4);
}

TEST(plan_cache, a_plan_that_cannot_be_kept_is_used_all_the_same) {
    const fs::path file = temporary("cache-no-directory");
    fs::remove_all(file);
    std::ofstream(file) << "a file";
    std::vector<std::string> warnings;
    const plan_data plan = plan_cache(file).find_or_make(
        "job", test::network(2), [] { return make_plan("job", test::network(2)); },
        [&](std::string_view line) { warnings.emplace_back(line); });
    EXPECT_EQ(plan.machine.ranks(), 2);
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_TRUE(warnings[0].starts_with("the plan is not kept in TERRACE_PLAN_CACHE: ")) << warnings[0];
}

}  // namespace
}  // namespace terrace::detail::plan_cache_test
