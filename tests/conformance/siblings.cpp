// Communicators of one parent, each used by another thread: requirements for every transport, written once.

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/world.hpp"
#include "support/any_thread.hpp"
#include "support/bad_calls.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"

namespace terrace::detail::test {

namespace {

class sibling_conformance : public testing::TestWithParam<world> {};

// Gives each thread a communicator of all ranks. Returns the text of the first exception; "" if there is none.
template <class Body>
std::string on_siblings(communicator& comm, int threads, const Body& body) {
    std::vector<communicator> siblings;
    for (int t = 0; t < threads; ++t) siblings.push_back(std::move(*comm.split(0)));
    return in_threads(threads, [&](int t) { body(siblings[static_cast<std::size_t>(t)], t); });
}

std::int64_t wrong_sums(communicator& comm) {
    std::vector<float> x(100, 1);
    comm.allreduce(x);
    return wrong_in(x, static_cast<float>(comm.size()));
}

// Creates parts of a communicator and of its parts, uses and destroys them. All ranks make the same random choices.
std::int64_t live(communicator& comm, dice random, int turns) {
    constexpr std::size_t most = 3;
    std::vector<communicator> parts;
    std::int64_t wrong = 0;
    const auto any = [&]() -> communicator& { return parts.empty() || random.coin() ? comm : random.pick(parts); };
    for (int turn = 0; turn < turns; ++turn) {
        const std::uint64_t colors = random.coin() ? random.roll() : 0;
        switch (random.below(4)) {
            case 0: {
                if (parts.size() == most) break;
                communicator& from = any();
                parts.push_back(std::move(*from.split(static_cast<int>(colors >> comm.rank() & 1), -from.rank())));
                break;
            }
            case 1:
                if (!parts.empty())
                    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(random.below(parts.size())));
                break;
            case 2: {
                const std::size_t count = 1 + random.below(5000);
                communicator& by = any();
                wrong += by.allocate<float>(count).size() != count;
                break;
            }
            default: wrong += wrong_sums(any());
        }
    }
    return wrong;
}

// Calls on_siblings on up to four ranks, if several threads of a rank may use communicators of this transport.
template <class Body>
void on_siblings_of(const world& w, int threads, const Body& body) {
    int ranks = 0;
    for (const int size : w.sizes)
        if (size <= 4) ranks = std::max(ranks, size);
    if (!w.many_threads || ranks == 0) GTEST_SKIP() << "more ranks, or one thread alone may call this transport";
    w.run(plan_for(ranks), [&](communicator& comm) {
        EXPECT_EQ(on_siblings(comm, threads, body), "") << "rank " << comm.rank();
        return std::vector<outcome>{};
    });
}

}  // namespace

// One sibling allocates windows, the other creates parts. Runs in one world of each program, since it takes long.
TEST_P(sibling_conformance, two_in_threads_of_their_own_do_not_meet) {
    if (GetParam().name != host_worlds().front().name) return;
    const int rounds = share("rounds of two siblings", 20000, 500);
    on_siblings_of(GetParam(), 2, [&](communicator& comm, int thread) {
        std::int64_t wrong = 0;
        for (int i = 0; i < rounds; ++i) {
            if (thread == 0) {
                wrong += comm.allocate<float>(1000 + static_cast<std::size_t>(i)).size() == 0;
            } else {
                communicator part = *comm.split(0);
                wrong += wrong_sums(part);
            }
        }
        EXPECT_EQ(wrong, 0);
    });
}

TEST_P(sibling_conformance, four_live_at_random) {
    const int turns = share("turns of four siblings", 4000, 80);
    on_siblings_of(GetParam(), 4, [&](communicator& comm, int thread) {
        EXPECT_EQ(live(comm, dice(seed() + static_cast<std::uint64_t>(thread)), turns), 0);
    });
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(sibling_conformance);
INSTANTIATE_TEST_SUITE_P(, sibling_conformance, testing::ValuesIn(host_worlds()),
                         [](const testing::TestParamInfo<world>& info) { return info.param.name; });

}  // namespace terrace::detail::test
