// Creation of communicators over MPI. Run under mpirun with any number of ranks, all on one machine.

#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <terrace/mpi.hpp>

#include "base/document.hpp"
#include "mpi/plans.hpp"
#include "plan/plan_access.hpp"
#include "support/bad_calls.hpp"
#include "support/mpi_ranks.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::test::create_test {

namespace {

// Returns the message of the error that creation throws.
std::string refusal(const plan& p, const options& o) {
    return refusal_of([&] { mpi::create(MPI_COMM_WORLD, p, o); });
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// All ranks share this machine, so one node of all of them fits, and nodes of one rank each do not.
TEST(mpi_create, finds_one_node) {
    communicator comm = mpi::create(MPI_COMM_WORLD, flat(machine_of(tree::uniform(std::vector{ranks(), 1}))));
    EXPECT_EQ(comm.rank(), rank());
    EXPECT_EQ(comm.size(), ranks());
    EXPECT_EQ(wrong_elements<float>(comm, 12345, 3), 0);
}

// tests/meson.build runs both cases: MPI initialized by MPI_Init, and with MPI_THREAD_MULTIPLE.
TEST(mpi_create, a_progress_thread_needs_mpi_for_many_threads) {
    const plan p = flat(machine_of(tree::uniform(std::vector{ranks()})));
    options o = anywhere();
    o.progress_thread = true;
    int given = 0;
    MPI_Query_thread(&given);
    if (given == MPI_THREAD_MULTIPLE) {
        communicator comm = mpi::create(MPI_COMM_WORLD, p, o);
        EXPECT_EQ(wrong_elements<float>(comm, 12345, 3), 0);
        std::vector<double> data(100'000, 1);
        request r = comm.allreduce_async(std::span(data));
        MPI_Barrier(MPI_COMM_WORLD);  // the caller uses MPI at the same time
        r.wait();
        EXPECT_EQ(std::count(data.begin(), data.end(), ranks()), 100'000);
        return;
    }
    std::string why;
    try {
        mpi::create(MPI_COMM_WORLD, p, o);
    } catch (const usage_error& e) {
        why = e.what();
    }
    EXPECT_TRUE(mentions(why, "MPI_Init_thread for MPI_THREAD_MULTIPLE") && mentions(why, "with MPI_THREAD_FUNNELED"))
        << why;
}

// Two threads of each rank make calls, which have the same order on all ranks by their groups' numbers.
TEST(mpi_create, calls_from_any_thread_need_mpi_for_many_threads) {
    const plan p = flat(machine_of(tree::uniform(std::vector{ranks()})));
    options o = anywhere();
    o.threads = options::threading::any;
    int given = 0;
    MPI_Query_thread(&given);
    if (given < MPI_THREAD_MULTIPLE) {
        EXPECT_TRUE(mentions(refusal(p, o), "options::threads"));
        return;
    }
    communicator comm = mpi::create(MPI_COMM_WORLD, p, o);
    std::vector<std::vector<int>> data(40);
    const auto call = [&](std::uint64_t first) {
        for (std::uint64_t n = first; n < data.size(); n += 2) {
            data[n].assign(100 + 300 * n, static_cast<int>(n));
            comm.group_start(n);
            request r = comm.allreduce_async(data[n]);
            comm.group_end();
            r.wait();
        }
    };
    std::jthread other([&] { call(1); });
    call(0);
    other.join();
    for (std::size_t n = 0; n < data.size(); ++n)
        EXPECT_EQ(data[n], std::vector<int>(100 + 300 * n, static_cast<int>(n) * ranks()));
}

TEST(mpi_create, refuses_other_nodes_on_every_rank) {
    if (ranks() == 1) GTEST_SKIP() << "takes two ranks";
    hierarchy separate = machine_of(tree::uniform(std::vector{1, ranks()}));
    separate.levels[1].medium = fabric::ethernet;
    const std::string why = refusal(flat(separate), {});
    EXPECT_TRUE(mentions(why, "1 in the plan") && mentions(why, fmt::format("and {} in the job", ranks()))) << why;
}

TEST(mpi_create, refuses_a_plan_for_more_ranks) {
    const std::string why = refusal(flat(machine_of(tree::uniform(std::vector{ranks() + 1}))), anywhere());
    EXPECT_TRUE(why.starts_with("topology.levels: ")) << why;
    EXPECT_TRUE(mentions(why, fmt::format("has {}; start {} ranks, or plan for this job", ranks(), ranks() + 1)))
        << why;
}

TEST(mpi_create, names_the_rank_with_another_plan) {
    if (ranks() < 3) GTEST_SKIP() << "takes three ranks";
    const hierarchy machine = machine_of(tree::uniform(std::vector{ranks()}));
    const std::string differs = refusal(flat(machine, rank() == 1 ? "halving" : "ring"), anywhere());
    EXPECT_TRUE(mentions(differs, "rank 1 has")) << differs;
    // A plan of another shape on one rank must not leave the others waiting.
    const std::string shape =
        refusal(flat(machine_of(tree::uniform(std::vector{ranks() * (rank() == 2 ? 2 : 1)}))), {});
    EXPECT_TRUE(mentions(shape, "rank 2 has")) << shape;
}

// Every rank reads the plan that the options name. A rank that cannot must not leave the others waiting.
TEST(mpi_create, takes_the_plan_that_the_options_name) {
    const std::string file = fmt::format("mpi_test.{}.plan.yaml", ranks());
    if (rank() == 0) write_atomically(file, data_of(flat(machine_of(tree::uniform(std::vector{ranks()})))).text);
    MPI_Barrier(MPI_COMM_WORLD);
    options o = anywhere();
    o.plan_file = file;
    communicator comm = mpi::create(MPI_COMM_WORLD, o);
    EXPECT_EQ(wrong_elements<float>(comm, 1000, 4), 0);
    const bool culprit = rank() == ranks() - 1;
    const std::string far(300, 'd');  // the error follows this long path
    if (culprit) o.plan_file = far + "/no such plan.yaml";
    std::string why;
    try {
        mpi::create(MPI_COMM_WORLD, o);
    } catch (const input_error& e) {
        why = culprit ? e.what() : "";
    } catch (const plan_error& e) {
        why = culprit ? "" : e.what();
    }
    EXPECT_TRUE(mentions(why, "no such plan.yaml: cannot be opened: File name too long")) << why;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) std::filesystem::remove(file);
}

TEST(mpi_create, names_the_file_of_a_plan_that_does_not_fit) {
    const std::string file = fmt::format("mpi_test.{}.more.plan.yaml", ranks());
    if (rank() == 0) write_atomically(file, data_of(flat(machine_of(tree::uniform(std::vector{ranks() + 1})))).text);
    MPI_Barrier(MPI_COMM_WORLD);
    const std::string why = refusal(plan::load(file), anywhere());
    EXPECT_TRUE(why.starts_with(file + ": topology.levels: the plan is for")) << why;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) std::filesystem::remove(file);
}

TEST(mpi_create, fails_on_all_ranks_where_one_has_no_module) {
    options o = anywhere();
    const bool culprit = rank() == ranks() - 1;
    if (culprit) o.mpi_module = "/nowhere/terrace-openmpi.so";
    std::string why;
    try {
        mpi::create(MPI_COMM_WORLD, flat(machine_of(tree::uniform(std::vector{ranks()}))), o);
    } catch (const transport_error& e) {
        why = e.what();
    }
    EXPECT_TRUE(mentions(why, culprit ? "/nowhere/terrace-openmpi.so" : "another rank cannot load the module")) << why;
}

TEST(mpi_create, refuses_a_module_for_another_mpi) {
    mpi_world other = world_of(MPI_COMM_WORLD);
    other.function = reinterpret_cast<void (*)()>(&MPI_Comm_size);
    const plan p = flat(machine_of(tree::uniform(std::vector{ranks()})));
    std::string why;
    try {
        create_over_mpi(other, &p, anywhere());
    } catch (const transport_error& e) {
        why = e.what();
    }
    EXPECT_TRUE(mentions(why, "than the program; build Terrace with the program's")) << why;
}

// MPI handles would have another meaning there, so no function that takes a handle is called.
TEST(mpi_create, refuses_a_program_that_runs_with_another_mpi_than_it_was_compiled_with) {
    mpi_world other = world_of(MPI_COMM_WORLD);
    const bool open = std::string_view(other.library) == "openmpi";
    if (std::string_view(other.library) == "mpiabi") GTEST_SKIP() << "the standard ABI is of any MPI";
    other.version = open ? +[] { return std::string("MPICH Version:\t4.0.2\nmore"); }
                         : +[] { return std::string("Open MPI v4.1.4, package"); };
    other.processes = [] { return ADD_FAILURE(), 0; };
    std::string why;
    try {
        create_over_mpi(other, nullptr, anywhere());
    } catch (const usage_error& e) {
        why = e.what();
    }
    EXPECT_TRUE(mentions(why, open ? "compiled with the mpi.h of Open MPI, but runs with MPICH Version: 4.0.2;"
                                   : "compiled with the mpi.h of MPICH, but runs with Open MPI v4.1.4;"))
        << why;
}

TEST(mpi_create, refuses_an_mpi_that_does_not_run) {
    mpi_world other = world_of(MPI_COMM_WORLD);
    other.processes = [] { return 0; };
    EXPECT_THROW(create_over_mpi(other, nullptr, anywhere()), usage_error);
}

TEST(mpi_create, warns_where_the_launcher_started_more_processes_than_mpi_knows_of) {
    options o = anywhere();
    std::vector<std::string> warnings;
    o.log = [&](log_level level, std::string_view line) {
        if (level == log_level::warn) warnings.emplace_back(line);
    };
    for (const int launched : {0, 1, ranks(), ranks() + 1}) {
        o.launched_processes = launched;
        mpi::create(MPI_COMM_WORLD, plan_for(ranks()), o);
    }
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_TRUE(mentions(warnings.front(), fmt::format("the launcher started {} processes, but ", ranks() + 1)) &&
                mentions(warnings.front(), fmt::format(" finds {}: each runs alone", ranks())))
        << warnings.front();
}

// If no plan is given, the job is described and planned for. Rank 0 logs one line about it.
TEST(mpi_create, plans_by_itself_where_no_plan_is_given) {
    options o;
    std::vector<std::string> lines;
    o.log = [&](log_level level, std::string_view line) {
        if (level == log_level::info) lines.emplace_back(line);
    };
    communicator comm = mpi::create(MPI_COMM_WORLD, o);
    EXPECT_EQ(comm.rank(), rank());
    for (const int count : {0, 1, 100, 100'000}) EXPECT_EQ(wrong_elements<float>(comm, count, 2), 0) << count;
    ASSERT_EQ(lines.size(), rank() == 0 ? 1U : 0U);
    const std::string expected = fmt::format("\"found at creation\", {} rank", ranks());
    EXPECT_TRUE(lines.empty() || mentions(lines.front(), expected)) << lines.front();
}

TEST(mpi_create, refuses_ranks_of_which_one_has_no_plan) {
    if (ranks() == 1) GTEST_SKIP() << "one rank cannot differ from itself";
    const plan p = flat(machine_of(tree::uniform(std::vector{ranks()})));
    std::string why;
    try {
        if (rank() == 0) mpi::create(MPI_COMM_WORLD, options{});
        else mpi::create(MPI_COMM_WORLD, p);
    } catch (const plan_error& e) {
        why = e.what();
    }
    EXPECT_TRUE(mentions(why, "plan of its own") && mentions(why, p.id())) << why;
}

// A plan that names its hosts, on a machine of another name.
TEST(mpi_create, refuses_a_host_that_the_plan_does_not_have) {
    hierarchy machine = machine_of(tree::uniform(std::vector{ranks()}));
    machine.hosts = {"no-such-host"};
    const std::string why = refusal(flat(machine), {});
    EXPECT_TRUE(mentions(why, "is none of the plan's, no-such-host")) << why;
    EXPECT_EQ(refusal(flat(machine), anywhere()), "accepted");
}

TEST(mpi_create, names_the_rank_whose_plan_file_has_one_byte_changed) {
    if (ranks() < 3) GTEST_SKIP() << "of two ranks neither is most";
    const int culprit = ranks() / 2;
    const hierarchy machine = machine_of(tree::uniform(std::vector{ranks()}));
    std::string text = data_of(plan_of(machine, {{{0}, ranks(), mode::scatter, "ring"}}, 2, 65536)).text;
    const std::size_t lanes = text.find("lanes: 2");
    ASSERT_NE(lanes, std::string::npos) << text;
    if (rank() == culprit) text[lanes + 7] = '3';
    options o = anywhere();
    o.plan_file = fmt::format("mpi_test.{}.of.{}.plan.yaml", rank(), ranks());
    write_atomically(o.plan_file, text);
    std::string why;
    try {
        mpi::create(MPI_COMM_WORLD, o);
    } catch (const plan_error& e) {
        why = e.what();
    }
    EXPECT_TRUE(mentions(why, fmt::format("; rank {} has terrace", culprit))) << why;
    std::filesystem::remove(o.plan_file);
}

TEST(mpi_create, refuses_ranks_that_do_not_check_calls_alike) {
    if (ranks() == 1) GTEST_SKIP() << "one rank cannot differ from itself";
    options o = anywhere();
    o.check = rank() == 0 ? options::checking::every : options::checking::first;
    const std::string why = refusal(plan_for(ranks()), o);
    EXPECT_TRUE(mentions(why, "check every") && mentions(why, "check first")) << why;
}

// The progress thread asks all ranks for their state, so a rank without it would wait.
TEST(mpi_create, refuses_ranks_of_which_one_has_a_progress_thread) {
    int given = 0;
    MPI_Query_thread(&given);
    if (ranks() == 1 || given < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "takes two ranks, and MPI for many threads";
    options o = anywhere();
    o.progress_thread = rank() == 0;
    EXPECT_TRUE(mentions(refusal(plan_for(ranks()), o), "progress thread"));
}

// Rank 0 of the communicator creates the trace file.
TEST(mpi_create, refuses_a_trace_that_cannot_be_written_on_every_rank) {
    options o = anywhere();
    o.trace_file = "no such directory/trace";
    try {
        mpi::create(MPI_COMM_WORLD, plan_for(ranks()), o);
        ADD_FAILURE() << "created";
    } catch (const usage_error& e) {
        EXPECT_TRUE(mentions(e.what(), "rank 0: no such directory/trace: cannot open the trace")) << e.what();
    }
}

TEST(mpi_create, refuses_ranks_that_do_not_share_memory_alike) {
    if (ranks() == 1) GTEST_SKIP() << "one rank cannot differ from itself";
    options o = anywhere();
    o.shared_memory = rank() != 0;
    EXPECT_TRUE(mentions(refusal(plan_for(ranks()), o), "no shared memory"));
}

}  // namespace

}  // namespace terrace::detail::test::create_test
