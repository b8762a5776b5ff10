// Plans of the shipped clusters, compared with the golden plans by bytes. TERRACE_GOLDEN_ACCEPT=1 writes the new plans
// (review the diff before you commit it); the test then counts as skipped.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/document.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "topology/formats.hpp"
#include "topology/formats/cluster.hpp"

namespace terrace::detail {
namespace {

namespace fs = std::filesystem;

const fs::path root = TERRACE_SOURCE_ROOT;
const fs::path golden = root / "tests" / "golden";

std::string content_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> sites() {
    std::set<std::string> result;
    for (const fs::directory_entry& e : fs::directory_iterator(root / "topologies"))
        if (fs::exists(e.path() / "cluster.yaml")) result.insert(e.path().filename().string());
    return result;
}

fs::path plan_file(const std::string& site) { return golden / (site + ".plan.yaml"); }

// Returns a site's name as a test name.
std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return name;
}

class golden_plan : public ::testing::TestWithParam<std::string> {};

TEST_P(golden_plan, is_as_committed) {
    const topology t = read_cluster(root / "topologies" / GetParam() / "cluster.yaml", read_node);
    const std::string made = make_plan(t.name, t.machine).text;
    if (std::getenv("TERRACE_GOLDEN_ACCEPT") != nullptr) {
        write_atomically(plan_file(GetParam()), made);
        GTEST_SKIP() << "wrote " << plan_file(GetParam());
    }
    EXPECT_EQ(made, content_of(plan_file(GetParam())))
        << "if the new plan is meant, run this test with TERRACE_GOLDEN_ACCEPT=1 and commit the difference";
}

INSTANTIATE_TEST_SUITE_P(shipped, golden_plan, ::testing::ValuesIn(sites()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(golden_plan);

// No test would compare a golden plan without a cluster.
TEST(golden_plans, all_have_a_cluster) {
    const std::set<std::string> known = sites();
    for (const fs::directory_entry& e : fs::directory_iterator(golden)) {
        const std::string name = e.path().filename().string();
        if (!name.ends_with(".plan.yaml")) continue;
        EXPECT_TRUE(known.contains(name.substr(0, name.size() - 10))) << e.path();
    }
}

}  // namespace
}  // namespace terrace::detail
