// Behaviour of calls that is particular to MPI; the rest is in tests/conformance. Run under mpirun with any number of
// ranks, all on one machine.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <terrace/mpi.hpp>

#include "mpi/plans.hpp"
#include "support/bad_calls.hpp"
#include "support/library_calls.hpp"
#include "support/mpi_ranks.hpp"
#include "support/parts.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::test::calls_test {

namespace {

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(mpi_calls, that_differ_are_found) {
    if (ranks() == 1) GTEST_SKIP() << "one rank cannot differ from itself";
    int found = 0;
    const auto detect = [&](options::checking level, agreed_before before) {
        options o = anywhere();
        o.check = level;
        o.timeout = std::chrono::seconds(20);
        for (const bad_call& what : bad_calls(ranks())) {
            for (int culprit : {0, ranks() - 1}) {
                communicator comm = mpi::create(MPI_COMM_WORLD, plan_for(ranks()), o);
                const std::string trouble = trouble_with(comm, what, culprit, before, level);
                EXPECT_EQ(trouble, "") << what.kind << ", culprit " << culprit;
                found += trouble.empty();
            }
        }
    };
    for (const agreed_before before : {agreed_before::nothing, agreed_before::what_most_call, agreed_before::all})
        for (const options::checking level : {options::checking::every, options::checking::first})
            detect(level, before);
    std::printf("%d differing calls found\n", found);
    EXPECT_EQ(found, 6 * 14);
}

TEST(mpi_split, parts_and_parts_of_parts) {
    for (const split_case& how : split_cases(ranks())) {
        communicator comm = mpi::create(MPI_COMM_WORLD, plan_for(ranks()), anywhere());
        EXPECT_EQ(trouble_with_split(comm, how), "") << how.name;
    }
}

// More calls than may run at once, by messages and in shared memory. Ranks wait for the last one first.
TEST(mpi_async, many_calls_in_flight) {
    for (const char* algorithm : {"ring", "shared_memory"}) {
        communicator comm =
            mpi::create(MPI_COMM_WORLD, flat(machine_of(tree::uniform(std::vector{ranks()})), algorithm), anywhere());
        constexpr int calls = 24;
        std::vector<std::vector<float>> data;
        std::vector<request> requests;
        for (int c = 0; c < calls; ++c) {
            data.emplace_back(static_cast<std::size_t>(1 + 5000 * (c % 4)), static_cast<float>(c));
            requests.push_back(comm.allreduce_async(std::span(data.back())));
        }
        for (int c = calls; c-- > 0;) {
            requests[static_cast<std::size_t>(c)].wait();
            const auto sum = static_cast<float>(c * ranks());
            for (float x : data[static_cast<std::size_t>(c)]) ASSERT_EQ(x, sum) << algorithm << ", call " << c;
        }
    }
}

TEST(mpi_async, a_call_that_others_do_not_make_ends_at_its_deadline) {
    if (ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
    {
        options o = anywhere();
        o.check = options::checking::off;
        o.timeout = std::chrono::milliseconds(300);
        communicator comm = mpi::create(MPI_COMM_WORLD, flat(machine_of(tree::uniform(std::vector{ranks()}))), o);
        std::vector<float> data(1000, 1);
        if (rank() != 0) {
            EXPECT_THROW(comm.allreduce(std::span(data)), timeout_error);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    communicator next = mpi::create(MPI_COMM_WORLD, flat(machine_of(tree::uniform(std::vector{ranks()}))), anywhere());
    std::vector<float> data(1000, 1);
    next.allreduce(std::span(data));
    EXPECT_EQ(data.back(), static_cast<float>(ranks()));
}

// MPI's own collectives run the stages with provider mpi. The conformance suite checks their results.
TEST(mpi_library, runs_stages_lane_by_lane) {
    const int n = ranks();
    const hierarchy machine = machine_of(tree::uniform(std::vector{n}));
    const int each = n > 1 ? 4 : 0;  // chunks of 16 KiB in 64 KiB
    for (const mode how : {mode::scatter, mode::root}) {
        communicator comm =
            mpi::create(MPI_COMM_WORLD, plan_of(machine, {{{0}, n, how, "", provider::mpi}}, 2, 1 << 14), anywhere());
        const library_calls before = library_calls_so_far();
        EXPECT_EQ(wrong_elements<float>(comm, 1 << 14, 3), 0);
        const library_calls after = library_calls_so_far();
        EXPECT_EQ(after.reduce_scatter - before.reduce_scatter, how == mode::scatter ? each : 0);
        EXPECT_EQ(after.allgather - before.allgather, how == mode::scatter ? each : 0);
        EXPECT_EQ(after.reduce - before.reduce, how == mode::root ? each : 0);
        EXPECT_EQ(after.broadcast - before.broadcast, how == mode::root ? each : 0);
    }
}

// MPI's collectives can be neither cancelled nor freed, so their memory must stay. Later communicators must work.
TEST(mpi_library, a_stage_that_others_do_not_join_ends_at_its_deadline) {
    const int n = ranks();
    if (n < 2) return;
    options o = anywhere();
    o.timeout = std::chrono::milliseconds(300);
    o.check = options::checking::off;
    const plan p = plan_of(machine_of(tree::uniform(std::vector{n})), {{{0}, n, mode::scatter, "", provider::mpi}});
    {
        communicator comm = mpi::create(MPI_COMM_WORLD, p, o);
        std::vector<float> data(1000, 1.0f);
        if (rank() == 0) {
            try {
                comm.allreduce(std::span(data));
                ADD_FAILURE() << "returned though nobody else called";
            } catch (const timeout_error& e) {
                EXPECT_TRUE(mentions(e.what(), "chunk 0: stage_reduce_scatter with rank 1")) << e.what();
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    communicator next = mpi::create(MPI_COMM_WORLD, p, anywhere());
    EXPECT_EQ(wrong_elements<float>(next, 1000, 5), 0);
}

TEST(mpi_shrink, is_refused_where_mpi_ends_all_ranks) {
    communicator comm = mpi::create(MPI_COMM_WORLD, plan_for(ranks()), anywhere());
    const std::string why = refusal_of([&] { comm.shrink(); });
#ifdef OMPI_MAJOR_VERSION
    EXPECT_TRUE(mentions(why, "no rank has failed")) << why;
#else
    EXPECT_TRUE(mentions(why, "MPICH ends all ranks when one has died; use Open MPI")) << why;
#endif
}

// Rank 0 returns the lines of all ranks that report in time. A rank without rank 0's answer returns its own line.
TEST(mpi_errors, are_said_once_with_the_ranks_that_they_occurred_on) {
    MPI_Barrier(MPI_COMM_WORLD);
    const std::string same = mpi::error_lines(MPI_COMM_WORLD, usage_error("no"));
    const std::string all = ranks() == 1 ? "terrace: no\n" : fmt::format("terrace: ranks 0-{}: no\n", ranks() - 1);
    EXPECT_EQ(same, rank() == 0 ? all : "");
    MPI_Barrier(MPI_COMM_WORLD);
    if (ranks() == 1) return;
    std::string own;
    if (rank() == 1) own = mpi::error_lines(MPI_COMM_WORLD, usage_error("alone"));
    EXPECT_EQ(own, rank() == 1 ? "terrace: rank 1: alone\n" : "");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) {  // receives the report that rank 1 sent it
        char text[16];
        MPI_Recv(text, sizeof text, MPI_CHAR, 1, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

}  // namespace

}  // namespace terrace::detail::test::calls_test
