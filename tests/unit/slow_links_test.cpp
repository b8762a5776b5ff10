// Links that become slower, found from the message times of a simulated ring of nodes.

#include "statistics/slow_links.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/index.hpp"
#include "machine/link_rows.hpp"
#include "support/dice.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::slow_links_test {

namespace {

constexpr double message = 48 << 10;  // [bytes]

// Calls of a ring over the nodes of three racks, in simulated time. In each node two ranks each pass on their own
// messages, as soon as these have arrived.
class ring_of_nodes {
public:
    explicit ring_of_nodes(std::uint64_t seed) : dice_(seed) {
        for (level& l : machine_.levels) l.bandwidth = 12.5e6;
        for (int r = 0; r < machine_.ranks(); ++r) {
            std::vector<bool> others(at(machine_.ranks()));
            for (int p = 0; p < machine_.ranks(); ++p) others[at(p)] = node_of(p) != node_of(r);
            times_.push_back(std::make_unique<message_times>(others, 1));
            times_.back()->set_ahead(std::chrono::microseconds(dice_.below(300)));  // clocks that differ
        }
        std::vector<slow_links::direction> all;
        for (int link = 0; link < rows_.links(); ++link)
            all.push_back({rows_.row_of(link), link ^ 1, rows_.rate(link)});
        const int first = rows_.link(1, 0, false);
        judge_ = std::make_unique<slow_links>(all, [this, first](int from, int to) {
            std::vector<int> links;
            rows_.for_each_link(from, to, [&](int link, int, bool) {
                if (link >= first) links.push_back(link);
            });
            return links;
        });
    }

    const link_rows& rows() const { return rows_; }
    /// Reduces both directions of a link to this part of their rate from now on.
    void slow(int row, int member, double part) {
        for (const bool inward : {false, true}) part_[rows_.link(row, member, inward)] = part;
    }
    /// Lets ranks of these nodes notice one message in three late. @param most largest delay [s]
    void load(const std::vector<int>& nodes, double most) {
        for (const int n : nodes) late_[n] = most;
    }
    /// Runs calls for this time [s], and returns the findings of that time.
    std::vector<slow_links::finding> run(double seconds) {
        found_.clear();
        for (const double end = now_ + seconds; now_ < end; now_ += 0.01) call();
        return found_;
    }

private:
    static constexpr int nodes = 6, ranks_of_node = 2, lanes = 4, hops = 30;

    struct arrival {
        double time = 0;
        int token = 0, rank = 0, hops = 0;
        friend bool operator<(const arrival& a, const arrival& b) {
            return std::tuple(a.time, a.token) > std::tuple(b.time, b.token);
        }
    };

    int node_of(int rank) const { return machine_.shape.domain_of(0, rank); }
    static message_times::clock::time_point point(double seconds) {
        return message_times::clock::time_point(
            std::chrono::nanoseconds(static_cast<std::int64_t>((seconds + 1000) * 1e9)));
    }
    double part() { return static_cast<double>(dice_.below(1000)) / 1000; }
    double rate(int from, int to) {
        double least = 1e12;
        rows_.for_each_link(from, to, [&](int link, int, bool) {
            const auto slow = part_.find(link);
            least = std::min(least, rows_.rate(link) * (slow == part_.end() ? 1 : slow->second));
        });
        return least;
    }

    // When a window ends, passes the times recorded so far to the judge, and takes its findings.
    void judge() {
        const std::uint32_t window = times_[0]->window_of(point(now_));
        if (std::exchange(window_, window) == window) return;
        for (int r = 0; r < machine_.ranks(); ++r)
            times_[at(r)]->take(point(now_), [&](int peer, bool sends, std::uint32_t w, const message_sample& s) {
                judge_->add(w, sends ? r : peer, sends ? peer : r, sends, s);
            });
        std::ranges::move(judge_->judge(window), std::back_inserter(found_));
    }

    void call() {
        std::vector<double> free(nodes, now_);  // by node: its link to the next one
        std::priority_queue<arrival> all;
        for (int token = 0; token < nodes * ranks_of_node * lanes; ++token)
            all.push({now_ + 0.002 * part(), token, token % (nodes * ranks_of_node), 0});
        while (!all.empty()) {
            const arrival a = all.top();
            all.pop();
            now_ = std::max(now_, a.time);
            judge();
            const int node = node_of(a.rank), next = (a.rank + ranks_of_node) % (nodes * ranks_of_node);
            if (a.hops > 0)
                times_[at(a.rank)]->note((a.rank + (nodes - 1) * ranks_of_node) % (nodes * ranks_of_node), false,
                                         48 << 10, 0, [&] { return point(a.time); });
            if (a.hops == hops) continue;
            times_[at(a.rank)]->note(next, true, 48 << 10, 0, [&] { return point(a.time); });
            free[at(node)] = std::max(free[at(node)], a.time) + message / rate(a.rank, next);
            const double late = late_[node_of(next)];
            const double seen = free[at(node)] + 0.001 * part() + (dice_.below(3) == 0 ? late * part() : 0);
            all.push({std::max(seen, seen_[next]), a.token, next, a.hops + 1});
            seen_[next] = std::max(seen, seen_[next]);
        }
    }

    dice dice_;
    hierarchy machine_ = three_racks();
    link_rows rows_{machine_};
    std::vector<std::unique_ptr<message_times>> times_;  // by rank
    std::unique_ptr<slow_links> judge_;
    std::map<int, double> part_, late_, seen_;  // by link; by node; by rank
    std::vector<slow_links::finding> found_;
    std::uint32_t window_ = 0;
    double now_ = 0;
};

}  // namespace

TEST(slow_links, name_the_link_that_carries_less_and_no_other) {
    for (const double part : {0.25, 0.5, 0.75}) {
        for (int row = 1; row < 3; ++row) {
            for (int member = 0; member < (row == 1 ? 6 : 3); ++member) {
                ring_of_nodes ring(at(10 * row + member));
                const std::string what = fmt::format("row {}, member {}, {}", row, member, part);
                EXPECT_TRUE(ring.run(8).empty()) << what;
                ring.slow(row, member, part);
                const std::vector<slow_links::finding> found = ring.run(5);
                ASSERT_EQ(found.size(), 1u) << what;
                EXPECT_TRUE(found[0].is_slow);
                EXPECT_EQ(found[0].links, std::vector{ring.rows().link(row, member, false)}) << what;
                EXPECT_NEAR(found[0].rate / found[0].before, part, 0.05) << what;
                ring.slow(row, member, 1);
                const std::vector<slow_links::finding> back = ring.run(5);
                ASSERT_EQ(back.size(), 1u) << what;
                EXPECT_FALSE(back[0].is_slow);
            }
        }
    }
}

TEST(slow_links, receivers_that_are_late_are_no_slow_links) {
    const std::vector<std::vector<int>> loads{{0}, {3}, {0, 1}, {1, 2}, {0, 2, 4}, {0, 1, 2, 3, 4, 5}};
    for (const std::vector<int>& loaded : loads) {
        for (const double late : {0.005, 0.02, 0.08}) {
            ring_of_nodes ring(loaded.size());
            EXPECT_TRUE(ring.run(6).empty());
            ring.load(loaded, late);
            EXPECT_TRUE(ring.run(20).empty()) << loaded.size() << " nodes, " << late;
            ring.load(loaded, 0);
            EXPECT_TRUE(ring.run(6).empty());
        }
    }
}

// A rank that exchanges messages with many others reports samples for each of them.
TEST(message_times, of_every_flow_of_a_window_something_is_told) {
    using clock = message_times::clock;
    constexpr int peers = 20;
    message_times times(std::vector<bool>(peers, true), 1);
    times.set_ahead({});
    const clock::time_point begin(message_times::window);
    for (int i = 0; i < 50; ++i)
        for (int peer = 0; peer < peers; ++peer)
            for (const bool sends : {false, true})
                times.note(peer, sends, 8192, 0, [&] { return begin + std::chrono::milliseconds(i); });
    std::map<std::pair<int, bool>, int> told;
    int samples = 0;
    times.take(begin + message_times::window, [&](int peer, bool sends, std::uint32_t, const message_sample& s) {
        EXPECT_EQ(s.first, 6u * at(told[{peer, sends}]++));
        EXPECT_EQ(s.count, message_sample::most);
        ++samples;
    });
    EXPECT_EQ(told.size(), 2u * peers);
    EXPECT_LE(samples, 48);
}

}  // namespace terrace::detail::test::slow_links_test
