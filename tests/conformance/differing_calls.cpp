// Calls that differ between ranks although each is of a shape that all have agreed on: found over every transport, as
// all messages and stages carry what their ranks have called.

#include <cstdio>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/world.hpp"
#include "support/bad_calls.hpp"
#include "support/effort.hpp"

namespace terrace::detail::test {

namespace {

class differing_calls : public testing::TestWithParam<world> {};

// Others take as long, and are tried over loopback (bad_calls).
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

// Device buffers: what their programs do there is in docs/reference/call-checking.md.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(differing_calls);
INSTANTIATE_TEST_SUITE_P(, differing_calls, testing::ValuesIn(host_worlds()),
                         [](const testing::TestParamInfo<world>& info) { return info.param.name; });

}  // namespace terrace::detail::test
