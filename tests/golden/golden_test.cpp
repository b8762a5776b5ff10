// Shipped clusters and the plans made for them, byte by byte. TERRACE_GOLDEN_ACCEPT=1 writes the plans that are made
// now (look at the diff before it is committed); the test then counts as skipped.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/document.hpp"
#include "golden/convert_v1.hpp"
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

// Sites as test names.
std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return name;
}

std::set<std::string> sites_of_format_1() {
    std::set<std::string> result;
    for (const fs::directory_entry& e : fs::directory_iterator(golden / "v1"))
        result.insert(e.path().stem().stem().string());
    return result;
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

// A plan whose cluster is gone would never be looked at again.
TEST(golden_plans, all_have_a_cluster) {
    const std::set<std::string> known = sites();
    for (const fs::directory_entry& e : fs::directory_iterator(golden)) {
        const std::string name = e.path().filename().string();
        if (!name.ends_with(".plan.yaml")) continue;
        EXPECT_TRUE(known.contains(name.substr(0, name.size() - 10))) << e.path();
    }
}

// Plans of format 1 are those of format 2 but for the keys of a stage, where the planner has not changed its mind
// since: it has about collectives of blocks. The fingerprint of the topology section is the same as well, as the format
// of that section is.
class plan_of_format_1 : public ::testing::TestWithParam<std::string> {};

TEST_P(plan_of_format_1, becomes_the_golden_plan) {
    const std::string old = content_of(golden / "v1" / (GetParam() + ".plan.yaml"));
    ASSERT_NE(old, "");
    const std::string made = content_of(plan_file(GetParam()));
    const auto head = [](const std::string& text) { return text.substr(0, text.find("reduce_scatter:\n")); };
    EXPECT_EQ(head(test::convert_v1(old)), head(made));
    EXPECT_THROW(parse_plan(old, "old.yaml"), input_error);
}

INSTANTIATE_TEST_SUITE_P(shipped, plan_of_format_1, ::testing::ValuesIn(sites_of_format_1()), name_of);

TEST(convert_v1, gives_each_stage_its_provider) {
    const auto converted = [](std::string_view fabric, std::string_view keys) {
        const auto plan = [&](std::string_view version, std::string_view stage) {
            return fmt::format(
                "terrace_plan: {}\n  levels:\n    - {{name: node, size: 2, fabric: {}, latency: 1 us}}\n"
                "        {{levels: [node], group: 2, mode: scatter, {}}}]}}\n",
                version, fabric, stage);
        };
        const std::string made = test::convert_v1(plan("1", keys)), around = plan("2", "");
        const std::size_t begin = around.size() - 4, end = made.size() - 4;
        EXPECT_TRUE(made.starts_with(around.substr(0, begin)) && made.ends_with("}]}\n")) << made;
        return made.substr(begin, end - begin);
    };
    EXPECT_EQ(converted("shm", "algorithm: native"), "provider: shared_memory");
    EXPECT_EQ(converted("nvlink", "algorithm: native"), "provider: nccl");
    EXPECT_EQ(converted("pcie", "algorithm: native"), "provider: nccl");
    EXPECT_EQ(converted("shm", "algorithm: mpi"), "provider: mpi");
    EXPECT_EQ(converted("nvlink", "algorithm: ring, over: mpi"), "provider: mpi, algorithm: ring");
    EXPECT_EQ(converted("nvlink", "algorithm: ring, over: nccl"), "algorithm: ring");
    EXPECT_EQ(converted("ethernet", "algorithm: ring, weights: [1, 1, 0]"), "algorithm: ring, shares: [1, 1, 0]");
    EXPECT_EQ(converted("ethernet", "algorithm: biring, first: 3"), "algorithm: biring, route_share: 3");
    EXPECT_EQ(converted("pcie", "algorithm: ring, over: mpi, first: 3"),
              "provider: mpi, algorithm: ring, route_share: 3");
}

}  // namespace
}  // namespace terrace::detail
