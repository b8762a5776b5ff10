// Counts of calls and waits, their files, and late ranks found from the files of all ranks.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/text_file.hpp"
#include "statistics/call_counts.hpp"
#include "statistics/late_ranks.hpp"
#include "statistics/metrics_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::test::statistics_unit_test {

namespace {

double seconds_of(const statistics& s) {
    double all = 0;
    for (const statistics::wait& w : s.waits) all += w.seconds;
    return all;
}

// Ranks of one communicator, two on each host.
struct job {
    explicit job(int ranks) {
        for (int r = 0; r < ranks; ++r) files.push_back({"1a-0", "host" + std::to_string(r / 2), "plan", r, ranks, {}});
        for (rank_statistics& f : files) f.counted.calls = {{"allreduce", 1024, 100, 102400, 10.0, 2.5}};
    }
    void wait(int rank, int whom, std::int64_t call, double seconds) {
        files[static_cast<std::size_t>(rank)].counted.waits.push_back({call, 0, 0, whom, seconds});
    }
    std::string sentence() const { return lateness_of(files).sentence(); }
    std::vector<rank_statistics> files;
};

}  // namespace

TEST(call_counts, keep_few_waits_of_many_calls) {
    call_counts counts;
    const int size = counts.size_of("allreduce", 1000);
    EXPECT_EQ(counts.size_of("allreduce", 513), size);
    EXPECT_NE(counts.size_of("barrier", 1000), size);
    constexpr std::uint64_t calls = 100'000;
    for (std::uint64_t call = 1; call <= calls; ++call)
        for (int peer = 0; peer < 3; ++peer) counts.waited({call, size, 0, peer}, 0.5);
    const statistics all = counts.all({10, 11, 12}, 1);
    EXPECT_LE(all.waits.size(), call_counts::most_waits);
    EXPECT_GT(all.waits.size(), call_counts::most_waits / 4);
    EXPECT_EQ(all.calls_per_slice & (all.calls_per_slice - 1), 0);
    EXPECT_DOUBLE_EQ(seconds_of(all), 0.5 * 3 * calls);
    EXPECT_EQ(all.waits.front().rank, 10);
    EXPECT_EQ(all.waits.front().first_call, 1);
}

TEST(call_counts, stay_within_bounds_where_a_rank_waits_for_very_many) {
    call_counts counts;
    const int size = counts.size_of("alltoall", 1);
    std::vector<int> ranks;
    for (int peer = 0; peer < 10'000; ++peer) {
        counts.waited({1, size, 0, peer}, 1);
        ranks.push_back(peer);
    }
    EXPECT_EQ(counts.all(ranks, 1).waits.size(), call_counts::most_waits);
}

// Rank 3 is late; rank 2 waits for it, and ranks 0 and 1 for rank 2.
TEST(lateness, is_of_the_rank_at_the_end_of_a_chain) {
    job all(4);
    for (int call = 1; call <= 100; call += 5) {
        all.wait(2, 3, call, 0.1);
        all.wait(0, 2, call, 0.1);
        all.wait(1, 2, call, 0.1);
    }
    EXPECT_EQ(all.sentence(), "rank 3 on host1 is late: others waited for it 2 s, 20 % of the 10 s in calls");
}

TEST(lateness, is_of_a_host_whose_ranks_are_late_by_turns) {
    job all(8);
    for (int call = 1; call <= 100; ++call) all.wait(0, 4 + call / 20 % 2, call, 0.05);
    EXPECT_EQ(all.sentence(), "host host2 is late: others waited for it 5 s, 50 % of the 10 s in calls");
}

TEST(lateness, may_have_been_there_for_a_while_or_not_at_all) {
    job once(4), none(4);
    for (int call = 1; call <= 100; ++call) {
        once.wait(0, 1, call, call == 50 ? 3 : 1e-6);
        for (int r = 0; r < 4; ++r) none.wait(r, (r + call) % 4, call, 0.05);
    }
    EXPECT_TRUE(once.sentence().starts_with("rank 1 on host0 was late for a while: others waited for it 3 s"))
        << once.sentence();
    EXPECT_EQ(none.sentence(), "no rank stands out");
    EXPECT_EQ(lateness_of({}).sentence(), "no rank stands out");
}

TEST(statistics_files, come_back_as_they_were_and_are_refused_with_the_place) {
    const temporary_directory folder;
    job all(2);
    all.wait(1, 0, 7, 0.25);
    all.files[1].host = "a\\b";
    all.files[1].plan = "my \"best\" plan";
    all.files[1].changes = {{12, "the link is \"slow\""}, {99, "it is back"}};
    for (const rank_statistics& f : all.files) write_statistics(folder.path(), f);
    const std::vector<rank_statistics> read = read_statistics(folder.path());
    ASSERT_EQ(read.size(), 2u);
    EXPECT_EQ(text_of(read[1]), text_of(all.files[1]));
    EXPECT_EQ(read[1].host + ", " + read[1].plan, "a\\b, my \"best\" plan");
    EXPECT_EQ(read[1].changes.at(0).why, "the link is \"slow\"");
    EXPECT_EQ(read[1].changes.at(1).from_call, 99);

    const auto refused = [&](const std::string& text) {
        const auto file = folder.path() / "1a-0.1.json";
        std::ofstream(file) << text;
        return refusal_of<input_error>([&] { read_statistics(folder.path()); }).substr(file.string().size());
    };
    std::string text = text_of(read[1]);
    EXPECT_EQ(refused(text.replace(text.find("[7, 0"), 5, "[7, 1")).substr(0, 6), ":7:7: ");
    EXPECT_EQ(refused("{\"terrace_statistics\": 1}").substr(0, 6), ":1:1: ");
    const temporary_directory empty;
    const std::string missing = refusal_of<input_error>([&] { read_statistics(empty.path()); });
    EXPECT_NE(missing.find("TERRACE_STATISTICS"), std::string::npos) << missing;
}

// In a job, ranks 0 and 1 belong to two processes. Here the process of rank 1 has ended.
TEST(metrics, have_each_series_once_and_go_with_the_last_rank) {
    const temporary_directory folder;
    const auto file = folder.path() / "terrace.prom";
    const auto text = [&] { return read_text(file, 1 << 20); };
    const auto lines_with = [&](const std::string& words) {
        std::istringstream in(text());
        int found = 0;
        for (std::string line; std::getline(in, line);) found += line.find(words) != line.npos ? 1 : 0;
        return found;
    };
    job all(2);
    all.wait(0, 1, 7, 0.25);
    rank_statistics part = all.files[0];
    part.communicator = "2b-0";
    renew_metrics(file, all.files[0], false);
    EXPECT_NE(text().find("terrace_waiting_seconds_total{collective=\"allreduce\",rank=\"0\",host=\"host0\","
                          "plan=\"plan\"} 0.25\n"),
              std::string::npos)
        << text();
    renew_metrics(file, part, false);
    renew_metrics(file, all.files[1], false);
    EXPECT_NE(
        text().find("terrace_calls_total{collective=\"allreduce\",rank=\"0\",host=\"host0\",plan=\"plan\"} 200\n"),
        std::string::npos)
        << text();
    EXPECT_EQ(lines_with("terrace_calls_total{"), 2);
    EXPECT_EQ(lines_with("# TYPE"), 5);

    std::string gone = text();
    const std::string owner = "# rank 1 is process ";
    gone.replace(gone.find(owner), gone.find('\n', gone.find(owner)) - gone.find(owner), owner + "2147483647");
    std::ofstream(file) << gone;
    renew_metrics(file, part, true);  // remains in the sums
    EXPECT_EQ(lines_with("terrace_calls_total{"), 1);
    EXPECT_EQ(lines_with("rank=\"0\",host=\"host0\",plan=\"plan\"} 200"), 1);
    renew_metrics(file, all.files[0], true);
    EXPECT_FALSE(std::filesystem::exists(file));
    renew_metrics(file, all.files[1], true);
    EXPECT_THROW(renew_metrics(folder.path() / "none" / "a.prom", all.files[0], false), input_error);
}

}  // namespace terrace::detail::test::statistics_unit_test
