// Calls that differ between ranks, each of a shape that all ranks have agreed on. Every transport detects them, since
// messages and stages carry the history of their rank's calls.

#include <cstdio>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/world.hpp"
#include "support/bad_calls.hpp"
#include "support/effort.hpp"

namespace terrace::detail::test {

namespace {

class differing_calls : public testing::TestWithParam<world> {};

// Returns three kinds of bad calls. Each kind takes long; the others are tested over loopback (bad_calls_test).
std::vector<bad_call> some_bad_calls(int ranks) {
    std::vector<bad_call> some = bad_calls(ranks);
    std::erase_if(some, [](const bad_call& c) { return c.kind != "op" && c.kind != "root" && c.kind != "order"; });
    return some;
}

}  // namespace

TEST_P(differing_calls, that_are_agreed_on_are_found) {
    for (const int ranks : GetParam().sizes) {
        if (ranks != 2 && ranks != 3 && ranks != 8 && !(ranks == 4 && everything())) continue;
        for (const bad_call& what : some_bad_calls(ranks)) {
            const int culprit = ranks - 1;
            std::string trouble;
            GetParam().run(plan_for(ranks), [&](communicator& comm) {
                const std::string own = trouble_with(comm, what, culprit, agreed_before::all, options::checking::first);
                EXPECT_EQ(own, "") << "rank " << comm.rank() << " of " << ranks << ", " << what.kind;
                return std::vector<outcome>{};
            });
        }
    }
}

// Only host buffers: docs/reference/call-checking.md describes the behaviour with device buffers.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(differing_calls);
INSTANTIATE_TEST_SUITE_P(, differing_calls, testing::ValuesIn(host_worlds()),
                         [](const testing::TestParamInfo<world>& info) { return info.param.name; });

}  // namespace terrace::detail::test
