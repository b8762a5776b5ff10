// Real buffers through the executor, ranks as threads, against a serial oracle.

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "support/dice.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::test {

namespace {

std::vector<stage> flat_ring(const hierarchy& machine) {
    std::vector<int> all;
    for (int l = 0; l < machine.depth(); ++l) all.push_back(l);
    return {{all, machine.ranks(), mode::scatter, "ring"}};
}

void expect_right(const hierarchy& machine, const std::vector<stage>& stages, int lanes, std::int64_t chunk) {
    std::atomic<std::int64_t> wrong{0};
    const plan p = plan_of(machine, stages, lanes, chunk);
    loopback::run(p, [&](communicator& comm) {
        int salt = 0;
        for (std::int64_t count : awkward_counts(comm.size())) wrong += wrong_elements<double>(comm, count, ++salt);
        for (int count : {1, 2 * comm.size() + 3, 1009}) wrong += wrong_elements_of_all<float>(comm, p, count, ++salt);
        wrong += wrong_elements_of_all<std::int64_t>(comm, p, comm.size(), ++salt);
        wrong += wrong_elements<float>(comm, awkward_counts(comm.size()).back(), ++salt);  // a bound program again
    });
    EXPECT_EQ(wrong, 0) << text(machine.shape) << ": " << describe(machine, stages) << ", lanes " << lanes << ", chunk "
                        << chunk;
}

}  // namespace

TEST(loopback_collectives, flat_rings_of_all_sizes) {
    for (int ranks : {1, 2, 3, 5, 8, 11, 16}) {
        const hierarchy machine = machine_of(tree::uniform(std::vector{ranks}));
        expect_right(machine, flat_ring(machine), 1, 0);
        expect_right(machine, flat_ring(machine), 3, 4096);
    }
}

TEST(loopback_collectives, roots) {
    for (const char* by : {"tree", "direct", "native"})
        for (const hierarchy& machine : {machine_of(tree({{4, 2, 3}, {3}})), machine_of(tree({{3, 3, 1}, {3}}))})
            for (std::int64_t chunk : {0, 4096})
                expect_right(machine, {{{0}, 0, mode::root, by}, {{1}, 3, mode::root, "tree"}}, 2, chunk);
}

// A sample of machines x stagings x modes and algorithms x lanes and chunks; the verifier's property test has them all.
TEST(loopback_collectives, sampled_plans) {
    dice random(20261121);
    std::vector<hierarchy> machines = uneven_machines();
    for (int ranks : {4, 6, 8, 12})
        for (const hierarchy& machine : uniform_machines(ranks)) machines.push_back(machine);
    int cases = 0;
    for (int tries = 0; tries < 150; ++tries) {
        const hierarchy& machine = random.pick(machines);
        if (machine.ranks() > 13) continue;
        auto all = stagings(machine);
        const std::vector<stage>& bare = random.pick(all);
        const std::vector<stage> stages = with_choice(bare, random.below(choices(bare.size())));
        if (!fits(machine, stages)) continue;
        expect_right(machine, stages, 1 + static_cast<int>(random.below(4)),
                     static_cast<std::int64_t>(random.below(4)) * 8192);
        ++cases;
    }
    std::printf("%d plans\n", cases);
    EXPECT_GT(cases, 50);
}

TEST(loopback_allreduce, all_ranks_get_the_same_bits) {
    for (const hierarchy& machine : uneven_machines()) {
        if (machine.ranks() > 13) continue;
        for (const std::vector<stage>& bare : stagings(machine)) {
            const std::vector<stage> stages = with_choice(bare, 0);
            constexpr std::size_t count = 3001;
            std::vector<std::vector<float>> results(static_cast<std::size_t>(machine.ranks()));
            loopback::run(plan_of(machine, stages, 2, 4096), [&](communicator& comm) {
                dice random(static_cast<std::uint64_t>(comm.rank()));
                std::vector<float> data(count);
                for (float& x : data)
                    x = std::ldexp(static_cast<float>(random.below(1000)), static_cast<int>(random.below(40)) - 20);
                if (comm.rank() == machine.ranks() - 1) data[7] = std::numeric_limits<float>::quiet_NaN();
                comm.allreduce(std::span(data));
                results[static_cast<std::size_t>(comm.rank())] = data;
            });
            EXPECT_TRUE(std::isnan(results[0][7]));
            for (const std::vector<float>& r : results)
                ASSERT_EQ(std::memcmp(r.data(), results[0].data(), count * sizeof(float)), 0)
                    << describe(machine, stages);
        }
    }
}

TEST(loopback_allreduce, refuses_bad_calls) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2}));
    loopback::run(plan_of(machine, flat_ring(machine)), [&](communicator& comm) {
        float x = 0;
        EXPECT_THROW(comm.allreduce(&x, &x, -1, element_type::float32, reduce_op::sum), usage_error);
        EXPECT_THROW(comm.allreduce(nullptr, nullptr, 1, element_type::float32, reduce_op::sum), usage_error);
        comm.allreduce(nullptr, nullptr, 0, element_type::float32, reduce_op::sum);
    });
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
    loopback::run(plan_of(machine, flat_ring(machine)), [](communicator& comm) {
        EXPECT_EQ(comm.size(), 4);
        EXPECT_EQ(comm.shape(1024), "l0:4 scatter ring");
        communicator moved = std::move(comm);
        EXPECT_EQ(moved.size(), 4);
        comm = std::move(moved);
    }, o);
    EXPECT_EQ(lines, 1);  // one per communicator, not per rank
}

TEST(loopback_communicator, its_log_line_says_plan_shape_transports_and_what_runs_by_size) {
    options o;
    std::string line;
    o.log = [&](log_level level, std::string_view text) {
        if (level == log_level::info) line += text;
    };
    o.plan_file = TERRACE_SOURCE_ROOT "/tests/golden/two-by-four.plan.yaml";
    loopback::run([](communicator&) {}, o);
    const plan p = plan::load(o.plan_file);
    const recipe& r = p.get();
    for (const std::string& part :
         {"plan " + p.id() + " \"two-by-four\", 8 ranks (4 x 2), transport loopback; allreduce up to ",
          fmt::format("; broadcast {} rules", r.rules.at(collective::broadcast).size())})
        EXPECT_NE(line.find(part), std::string::npos) << part << "\n" << line;
    for (const rule& each : r.rules.at(collective::allreduce))
        EXPECT_NE(line.find(": " + describe(r.machine, each.stages)), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
}

}  // namespace terrace::test
