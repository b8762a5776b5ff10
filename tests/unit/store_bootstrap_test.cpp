// Ranks that meet in a directory. The ranks are threads.

#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "support/temporary.hpp"
#include "transport/packed.hpp"
#include "transport/store_bootstrap.hpp"
#include "transport/team.hpp"

namespace terrace::detail::test::store_bootstrap_test {

namespace {

using namespace std::chrono_literals;
using texts = std::vector<std::string>;

team join(const std::filesystem::path& directory, int rank, int size, std::chrono::duration<double> timeout = 60s) {
    return team(std::make_shared<store_bootstrap>(file_store(directory, rank, size), directory.string(), timeout), rank,
                size);
}

// Runs `body` on each rank. Returns the ranks' results or error messages.
texts on_all(int size, const std::function<std::string(int rank)>& body) {
    texts results(at(size));
    std::vector<std::jthread> ranks;
    for (int r = 0; r < size; ++r)
        ranks.emplace_back([&, r] {
            try {
                results[at(r)] = body(r);
            } catch (const error& e) {
                results[at(r)] = e.what();
            }
        });
    ranks.clear();
    return results;
}

std::string joined(const texts& all) {
    std::string text;
    for (const std::string& t : all) text += t + ' ';
    return text;
}

bool says(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST(file_store, has_values_that_are_replaced_and_removed) {
    const temporary_directory scratch;
    const store s = file_store(scratch.path() / "made", 0, 1);
    EXPECT_FALSE(s.get("a/b"));
    s.put("a/b", std::string("x\0y", 3));
    EXPECT_EQ(s.get("a/b"), std::string("x\0y", 3));
    s.put("a/b", "");
    EXPECT_EQ(s.get("a/b"), "");
    struct stat file {};
    ASSERT_EQ(::stat((scratch.path() / "made" / "a.b").c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777, 0600u);  // a job key may be in it
    s.remove("a/b");
    EXPECT_FALSE(s.get("a/b"));
}

TEST(file_store, nobody_reads_half_a_value) {
    const temporary_directory scratch;
    const std::string a(100'000, 'a'), b(200'000, 'b');
    const store writes = file_store(scratch.path(), 0, 2), reads = file_store(scratch.path(), 1, 2);
    writes.put("k", a);
    std::atomic<bool> over{false};
    std::jthread writer([&] {
        for (int n = 0; n < 200; ++n) writes.put("k", n % 2 == 0 ? b : a);
        over = true;
    });
    int wrong = 0;
    while (!over) {
        const std::string seen = reads.get("k").value_or("missing");
        wrong += seen != a && seen != b;
    }
    EXPECT_EQ(wrong, 0);
}

TEST(file_store, says_what_is_wrong_with_a_directory) {
    try {
        file_store("/proc/terrace", 0, 1);
        ADD_FAILURE() << "made";
    } catch (const transport_error& e) {
        EXPECT_TRUE(says(e.what(), "/proc/terrace")) << e.what();
    }
}

TEST(store_bootstrap, teams_exchange_and_split) {
    const temporary_directory scratch;
    const texts seen = on_all(5, [&](int rank) {
        team all = join(scratch.path(), rank, 5);
        std::string text = joined(all.exchange(std::string(at(rank), '.'))) + all.broadcast(std::to_string(rank));
        team half = *all.split(rank % 2, -rank);
        for (int turn = 0; turn < 20; ++turn) text = joined(half.exchange(std::to_string(rank)));
        return text;
    });
    EXPECT_EQ(seen, (texts{"4 2 0 ", "3 1 ", "4 2 0 ", "3 1 ", "4 2 0 "}));
}

TEST(store_bootstrap, meets_again_in_the_directory_of_a_former_run_and_keeps_few_files) {
    const temporary_directory scratch;
    std::size_t files = 0;
    for (int run = 0; run < 10; ++run) {
        const texts seen = on_all(3, [&](int rank) {
            team first = join(scratch.path(), rank, 3);
            team second = join(scratch.path(), rank, 3);  // while the first is in use
            for (int turn = 0; turn < 10; ++turn) first.exchange("old");
            return joined(second.exchange(std::to_string(run)));
        });
        for (const std::string& s : seen) EXPECT_EQ(s, run == 0 ? "0 0 0 " : joined(texts(3, std::to_string(run))));
        files = static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(scratch.path()), {}));
    }
    EXPECT_LT(files, 10u * 2 * 10);  // for each meeting, its last exchange and the ranks that have read it
}

// A rank publishes its hello, times out, and starts again: the others wait for its second hello.
TEST(store_bootstrap, meets_a_rank_that_has_started_twice) {
    const temporary_directory scratch;
    EXPECT_THROW(join(scratch.path(), 2, 3, 10ms), timeout_error);
    const texts seen = on_all(3, [&](int rank) {
        if (rank == 2) std::this_thread::sleep_for(20ms);
        return joined(join(scratch.path(), rank, 3).exchange(std::to_string(rank)));
    });
    EXPECT_EQ(seen, texts(3, "0 1 2 "));
}

TEST(store_bootstrap, names_ranks_that_do_not_come) {
    const temporary_directory scratch;
    const texts seen = on_all(2, [&](int rank) {
        join(scratch.path(), rank, 4, 100ms);
        return std::string("met");
    });
    EXPECT_TRUE(says(seen[0], "waiting for ranks 2-3 in " + scratch.path().string())) << seen[0];
    EXPECT_TRUE(says(seen[1], "waiting for ranks 2-3 in")) << seen[1];  // rank 0 has arrived
}

TEST(store_bootstrap, names_ranks_of_a_group_in_the_whole_job_too) {
    const temporary_directory scratch;
    const texts seen = on_all(1, [&](int rank) {
        const store_bootstrap met(file_store(scratch.path(), rank, 2), "here", 100ms, {}, {4, 6});
        return std::string("met");
    });
    EXPECT_TRUE(says(seen[0], "waiting for rank 1 (rank 6 of the world) in here")) << seen[0];
}

TEST(store_bootstrap, names_ranks_that_stop_coming) {
    const temporary_directory scratch;
    const texts seen = on_all(3, [&](int rank) {
        team all = join(scratch.path(), rank, 3, rank == 1 ? 30s : 100ms);
        if (rank != 1) all.exchange("here");
        return std::string("left");
    });
    EXPECT_TRUE(says(seen[0], "waiting for rank 1 in")) << seen[0];
    EXPECT_TRUE(says(seen[2], "waiting for rank 1 in")) << seen[2];
}

TEST(store_bootstrap, refuses_a_rank_outside_the_job) {
    const temporary_directory scratch;
    for (const int rank : {-1, 2}) EXPECT_THROW(join(scratch.path(), rank, 2), usage_error);
}

TEST(packed, leaves_out_what_is_cut_off) {
    packed all;
    for (const char* t : {"one", "", "three"}) all.add(t);
    const packed again(all.bytes());
    ASSERT_EQ(again.size(), 3);
    EXPECT_EQ(again.value(2), "three");
    EXPECT_EQ(packed(all.bytes().substr(0, all.bytes().size() - 1)).size(), 2);
    EXPECT_EQ(packed("short").size(), 0);
}

}  // namespace terrace::detail::test::store_bootstrap_test
