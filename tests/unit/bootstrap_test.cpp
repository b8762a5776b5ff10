// Requirements for every bootstrap if ranks have several threads. Ranks are threads, too.

#include <netinet/in.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "support/any_thread.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"
#include "support/temporary.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/socket_bootstrap.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail::test::bootstrap_test {

namespace {

using namespace std::chrono_literals;

constexpr int ranks = 4;

struct kind {
    std::string name;
    std::function<team(team first, const std::string& directory)> join;  ///< makes a rank's team from a loopback team
};

std::vector<kind> kinds() {
    return {{"loopback", [](team first, const std::string&) { return first; }},
            {"files",
             [](const team& first, const std::string& directory) {
                 const int rank = first.rank();
                 return team(std::make_shared<store_bootstrap>(file_store(directory, rank, ranks), directory, 60s),
                             rank, ranks);
             }},
            {"sockets", [](team first, const std::string&) {
                 const std::vector<network_interface> at{{.name = "lo", .address = htonl(INADDR_LOOPBACK)}};
                 const auto boot = std::make_shared<socket_bootstrap>(first, at, port_range{});
                 boot->set_timeout(60s);
                 return team(boot, first.rank(), ranks);
             }}};
}

class bootstrap_threads : public testing::TestWithParam<kind> {
protected:
    // Gives several threads of each rank a team of all ranks each. Returns the text of the first exception; else "".
    std::string on_siblings(int threads, const std::function<void(team, int thread)>& body) const {
        const temporary_directory meeting;
        loopback_world world(std::vector<int>{ranks});
        return in_threads(ranks, [&](int rank) {
            team all = GetParam().join(world.join(rank).ranks, meeting.path().string());
            std::vector<team> siblings;
            for (int t = 0; t < threads; ++t) siblings.push_back(*all.split(0, 0));
            const std::string thrown = in_threads(threads, [&](int t) { body(siblings[at(t)], t); });
            if (!thrown.empty()) throw error(thrown);
        });
    }
};

std::string text_of(int rank, int turn, int thread) {
    return std::to_string(rank) + "/" + std::to_string(turn) + "/" + std::string(at(100 * thread), 'x');
}

}  // namespace

TEST_P(bootstrap_threads, exchange_at_the_same_time) {
    const int turns = share("exchanges of threads", 2000, 60);
    EXPECT_EQ(on_siblings(4,
                          [&](team mine, int thread) {
                              dice random(seed() + static_cast<std::uint64_t>(thread));
                              for (int turn = 0; turn < turns; ++turn) {
                                  if (random.below(8) == 0)
                                      mine = *mine.split(0, random.coin() ? mine.rank() : -mine.rank());
                                  const std::vector<std::string> got =
                                      mine.exchange(text_of(mine.rank(), turn, thread));
                                  for (int r = 0; r < ranks; ++r) EXPECT_EQ(got[at(r)], text_of(r, turn, thread));
                              }
                          }),
              "");
}

// One thread stops waiting for a rank that does not come. The rank's other threads continue to wait.
TEST_P(bootstrap_threads, end_their_own_waits_alone) {
    struct over {};
    EXPECT_EQ(on_siblings(2,
                          [&](team mine, int thread) {
                              if (thread == 1) {
                                  if (mine.rank() == 0) std::this_thread::sleep_for(100ms);
                                  EXPECT_EQ(mine.exchange("here").size(), at(ranks));
                                  return;
                              }
                              if (mine.rank() == 0) return;
                              const std::thread::id own = std::this_thread::get_id();
                              int looks = 0;
                              const auto look = std::make_shared<const wait_hook>([&] {
                                  EXPECT_EQ(std::this_thread::get_id(), own);
                                  if (++looks == 3) throw over();
                              });
                              mine.while_waiting(look);
                              EXPECT_THROW(mine.part(std::vector{0, 1, 2, 3}, "given up").exchange("never"), over);
                          }),
              "");
}

INSTANTIATE_TEST_SUITE_P(, bootstrap_threads, testing::ValuesIn(kinds()),
                         [](const testing::TestParamInfo<kind>& info) { return info.param.name; });

}  // namespace terrace::detail::test::bootstrap_test
