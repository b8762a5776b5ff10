// Behaviour particular to ranks that are threads of one process; the rest is in tests/conformance.

#include <atomic>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "plan/plan_access.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::collectives_test {

namespace {

std::vector<stage> flat_ring(const hierarchy& machine) {
    std::vector<int> all;
    for (int l = 0; l < machine.depth(); ++l) all.push_back(l);
    return {{all, machine.ranks(), mode::scatter, "ring"}};
}

}  // namespace

TEST(loopback_allreduce, refuses_bad_calls) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2}));
    loopback::run(plan_of(machine, flat_ring(machine)), [&](communicator& comm) {
        float x = 0;
        EXPECT_THROW(comm.allreduce(&x, &x, -1, element_type::float32, reduce_op::sum), usage_error);
        EXPECT_THROW(comm.allreduce(nullptr, nullptr, 1, element_type::float32, reduce_op::sum), usage_error);
        comm.allreduce(nullptr, nullptr, 0, element_type::float32, reduce_op::sum);
    });
}

// A plan runs over messages where ranks cannot share memory, and must not give other bits then.
TEST(loopback_allreduce, has_the_same_bits_without_shared_memory) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{7}));
    for (mode m : {mode::replicate, mode::scatter, mode::root}) {
        const plan by = plan_of(machine, {{{0}, 7, m, "", provider::shared_memory}});
        const auto sums = [&](bool shared) {
            options o;
            o.shared_memory = shared;
            std::vector<float> result;
            loopback::run(
                by,
                [&](communicator& comm) {
                    std::vector<float> data(1000);
                    for (std::size_t i = 0; i < data.size(); ++i)
                        data[i] = 1 / (static_cast<float>(i + 1) + 17 * static_cast<float>(comm.rank()));
                    comm.allreduce(std::span(data));
                    if (comm.rank() == 0) result = data;
                },
                o);
            return result;
        };
        EXPECT_EQ(sums(true), sums(false)) << to_string(m);
    }
}

TEST(loopback_communicator, refuses_unknown_algorithms_at_creation) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2}));
    EXPECT_THROW(loopback::run(plan_of(machine, {{{0}, 2, mode::scatter, "magic"}}), [](communicator&) {}), plan_error);
    EXPECT_THROW(loopback::run(plan_of(machine, {{{0}, 2, mode::root, "ring"}}), [](communicator&) {}), plan_error);
}

TEST(loopback_communicator, one_rank_that_fails_does_not_hang_the_others) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{4}));
    std::atomic<int> told{0};
    EXPECT_THROW(loopback::run(plan_of(machine, flat_ring(machine)),
                               [&](communicator& comm) {
                                   if (comm.rank() == 2) throw std::runtime_error("rank 2 gives up");
                                   std::vector<float> data(1000);
                                   try {
                                       comm.allreduce(std::span(data));
                                   } catch (const transport_error&) {
                                       ++told;
                                       EXPECT_THROW(comm.allreduce(std::span(data)), usage_error);  // broken
                                       throw;
                                   }
                               }),
                 std::exception);
    EXPECT_EQ(told, 3);
}

TEST(loopback_communicator, says_what_it_is) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{4}));
    std::atomic<int> lines{0};
    options o;
    o.log = [&](log_level, std::string_view line) { lines += line.find("scatter ring") != std::string_view::npos; };
    loopback::run(
        plan_of(machine, flat_ring(machine)),
        [](communicator& comm) {
            EXPECT_EQ(comm.size(), 4);
            EXPECT_EQ(comm.shape(1024), "l0:4 scatter ring");
            communicator moved = std::move(comm);
            EXPECT_EQ(moved.size(), 4);
            comm = std::move(moved);
        },
        o);
    EXPECT_EQ(lines, 1);  // one per communicator, not per rank
}

TEST(loopback_communicator, its_log_line_says_plan_shape_transports_and_what_runs_by_size) {
    options o;
    std::string line;
    o.log = [&](log_level level, std::string_view text) {
        if (level == log_level::info) line += text;
    };
    o.plan_file = TERRACE_SOURCE_ROOT "/tests/golden/three-racks.plan.yaml";
    loopback::run([](communicator&) {}, o);
    const plan p = plan::load(o.plan_file);
    const plan_data& r = data_of(p);
    for (const std::string& part :
         {"plan " + p.id() +
              " \"three-racks\", 12 ranks (2 x 2 x 3), transport shm in nodes, loopback; allreduce up to ",
          fmt::format("; broadcast {} rules", r.rules.at(collective::broadcast).size())})
        EXPECT_NE(line.find(part), std::string::npos) << part << "\n" << line;
    for (const rule& each : r.rules.at(collective::allreduce))
        EXPECT_NE(line.find(": " + describe(r.machine, each.stages)), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
}

}  // namespace terrace::detail::test::collectives_test
