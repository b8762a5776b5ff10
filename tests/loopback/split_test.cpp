#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "plan/plan_access.hpp"
#include "planner/planner.hpp"
#include "support/bad_calls.hpp"
#include "support/effort.hpp"
#include "support/parts.hpp"
#include "support/refusal.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::split_test {

namespace {

plan planned(const hierarchy& machine) { return to_plan(make_plan("whole", machine)); }

}  // namespace

TEST(split, parts_of_all_kinds_of_machines) {
    std::vector<hierarchy> machines = uneven_machines();
    for (int ranks : {1, 2, 3, 8})
        machines.push_back(
            machine_of(ranks == 8 ? tree::uniform(std::vector{2, 2, 2}) : tree::uniform(std::vector{ranks})));
    const int most = share_sanitized("ranks of machines that are split", 13, 8);
    int cases = 0;
    for (const hierarchy& machine : machines) {
        if (machine.ranks() > most) continue;
        const plan whole = planned(machine);
        for (const split_case& how : split_cases(machine.ranks())) {
            std::mutex guard;
            std::string trouble;
            loopback::run(whole, [&](communicator& comm) {
                const std::string own = trouble_with_split(comm, how);
                const std::lock_guard lock(guard);
                if (!own.empty()) trouble = fmt::format("rank {}: {}", comm.rank(), own);
            });
            EXPECT_EQ(trouble, "") << how.name << " of " << shape_text(machine.shape);
            ++cases;
        }
    }
    EXPECT_GT(cases, 40);
}

TEST(split, by_node_joins_the_ranks_of_each_node) {
    hierarchy machine = machine_of(tree({{4, 2, 3}, {3}}));
    machine.levels[1].medium = fabric::ethernet;
    loopback::run(planned(machine), [](communicator& comm) {
        communicator node = comm.split_by_node();
        const std::size_t number = comm.rank() < 4 ? 0 : comm.rank() < 6 ? 1 : 2;
        constexpr int sizes[] = {4, 2, 3}, first[] = {0, 4, 6}, sums[] = {6, 9, 21};
        EXPECT_EQ(node.size(), sizes[number]);
        EXPECT_EQ(node.rank(), comm.rank() - first[number]);
        std::vector<int> data{comm.rank()};
        node.allreduce(data);
        EXPECT_EQ(data[0], sums[number]);
        const communicator reversed = comm.split_by_node(-comm.rank());
        EXPECT_EQ(reversed.rank(), node.size() - 1 - node.rank());
    });
}

// A part has a plan for its own ranks: the plan of one node has no network.
TEST(split, plans_for_the_part) {
    hierarchy machine = machine_of(tree({{4, 2, 3}, {3}}));
    machine.levels[1].medium = fabric::ethernet;
    std::mutex guard;
    std::vector<std::string> lines;
    options o;
    o.log = [&](log_level level, std::string_view line) {
        const std::lock_guard lock(guard);
        if (level == log_level::info) lines.emplace_back(line);
    };
    loopback::run(
        planned(machine),
        [&](communicator& comm) {
            const auto node = comm.split(comm.rank() < 4 ? 0 : comm.rank() < 6 ? 1 : 2);
            const auto others = comm.split(comm.rank() == 4 ? -1 : 0);
        },
        o);
    ASSERT_EQ(lines.size(), 5u);
    int found = 0;
    for (const std::string& line : lines)
        for (const char* part :
             {"\"whole\", 9 ranks (2-4 x 3)", "\"whole.4of9\", 4 ranks (4 x 1)", "\"whole.2of9\", 2 ranks (2 x 1)",
              "\"whole.3of9\", 3 ranks (3 x 1)", "\"whole.8of9\", 8 ranks (1-4 x 3)"})
            found += line.find(part) != std::string::npos;
    EXPECT_EQ(found, 5);
}

TEST(split, a_rank_that_calls_something_else_is_found) {
    std::atomic<int> told{0};
    loopback::run(plan_for(4), [&](communicator& comm) {
        std::vector<float> data(100);
        comm.allreduce(std::span(data));
        try {
            if (comm.rank() == 3) comm.allreduce(std::span(data));
            else comm.split(0);
        } catch (const usage_error& e) {
            const std::string text = e.what();
            told += text.find("ranks 0-2 have split (call 2); rank 3 has allreduce of 100 ") != std::string::npos;
        }
    });
    EXPECT_EQ(told, 4);
}

TEST(split, a_rank_that_fails_fails_the_parts_too) {
    std::atomic<int> told{0};
    EXPECT_THROW(loopback::run(plan_for(4),
                               [&](communicator& comm) {
                                   std::optional<communicator> part = comm.split(0);
                                   if (part->rank() == 2) throw std::runtime_error("rank 2 gives up");
                                   std::vector<float> data(1000);
                                   try {
                                       part->allreduce(std::span(data));
                                   } catch (const transport_error&) {
                                       ++told;
                                       throw;
                                   }
                               }),
                 std::exception);
    EXPECT_EQ(told, 3);
}

// The odd ranks of 0 to 5 form a part, of which ranks 5 and 3 form a part with ranks 0 and 1.
TEST(split, a_timeout_in_a_part_of_a_part_names_ranks_of_the_world) {
    std::string said;
    std::latch over(6);
    loopback::run(plan_for(6), [&](communicator& comm) {
        std::optional<communicator> part = comm.split(comm.rank() % 2);
        part = part->split(part->rank() > 0 ? 0 : -1, -part->rank());
        if (comm.rank() == 5) {
            part->set_timeout(std::chrono::milliseconds(100));
            said = refusal_of<timeout_error>([&] { part->barrier(); });
        }
        over.arrive_and_wait();
    });
    EXPECT_TRUE(
        said.starts_with("timed out after 0.1 s (options::timeout), waiting for rank 1 (rank 3 of the world), "))
        << said;
}

}  // namespace terrace::detail::test::split_test
