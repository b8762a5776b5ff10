// The verifier proves every algorithm of the registry, in every stage of every shape, for every collective that it can
// do. TERRACE_TEST_ALL=1 runs all cases; else all up to 8 ranks (7 with sanitizers) run, and a fixed sample above.

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "schedule/compose.hpp"
#include "schedule/lower.hpp"
#include "schedule/registry.hpp"
#include "schedule/verify.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"
#include "support/interleave.hpp"
#include "support/programs.hpp"
#include "support/shapes.hpp"

namespace terrace::detail {
namespace {

constexpr int all_up_to = test::slowness > 1 ? 7 : 8;
constexpr int most_ranks = 24, sample = 20;

std::set<int> roots_for(int ranks) {
    std::set<int> roots{0, ranks / 2, ranks - 1};
    if (ranks <= 6)
        for (int r = 1; r < ranks; ++r) roots.insert(r);
    return roots;
}

bool has_stages(const schedule& s) {
    return std::any_of(s.instrs.begin(), s.instrs.end(), [](const instr& i) { return is_stage(i.what); });
}

// Proves plans and counts the cases. The first failure ends a test, since one bug makes thousands of failures.
class verification {
public:
    ~verification() { fmt::print("{} cases verified, {} plans refused as unfit\n", cases_, unfit_); }

    void plan(const hierarchy& machine, const std::vector<stage>& stages) {
        const std::string name = fmt::format("{}: {}", test::text(machine.shape), describe(machine, stages));
        if (!test::fits(machine, stages)) {
            EXPECT_THROW(compose(machine, stages, machine.ranks(), 1), plan_error) << name;
            ++unfit_;
            return;
        }
        for (collective what : all_collectives) {
            if (!test::able(stages, what)) continue;
            // With a root there are eleven ways to run a stage, each of which would be proved for several roots.
            if (row_of(what).has_root() && !test::everything() && stages.size() > 1 && turn_++ % 8 != 0) continue;
            const bool in_memory = std::ranges::any_of(stages, follows_buffers, &stage::provider);
            if (row_of(what).blocks) {
                for (const std::vector<range>& blocks : test::hard_blocks(machine.ranks(), what))
                    for (const int root : row_of(what).has_root() ? std::set{0, machine.ranks() - 1} : std::set{0})
                        prove(test::block_program(machine, stages, what, blocks, root));
                const collective_call uneven{.what = what, .blocks = test::hard_blocks(machine.ranks(), what).back()};
                if (what != collective::alltoall)
                    for (const bool last : {false, true})
                        prove(test::block_program(machine, stages, what, uneven.chunk_of(2, last).blocks));
                if (in_memory) prove_stages(machine, stages, uneven);
            } else {
                for (int root : row_of(what).has_root() ? roots_for(machine.ranks()) : std::set{0}) {
                    for (std::int64_t count : test::hard_counts(machine.ranks()))
                        prove(test::vector_program(machine, stages, what, count, 1, root));
                    prove(test::vector_program(machine, stages, what, 40 * machine.ranks() + 3, 16, root));
                    if (root != (row_of(what).has_root() ? machine.ranks() / 2 : 0)) continue;
                    compose_one_by_one(machine, stages, what, 40 * machine.ranks() + 3, 16, root);
                    if (in_memory)
                        prove_stages(machine, stages,
                                     {.what = what, .count = 2 * machine.ranks() + 3, .root = root, .element = 64});
                }
            }
        }
    }

private:
    // Proves a call as shared memory runs it, with the vector's home in scratch memory, the caller's buffer, or mixed.
    void prove_stages(const hierarchy& machine, const std::vector<stage>& stages, const collective_call& call) {
        std::vector<buffer> homes(at(machine.ranks()), buffer::scratch), mixed = homes;
        for (std::size_t r = 0; r < mixed.size(); r += 2) mixed[r] = buffer::recv;
        for (const auto& each : {homes, std::vector(homes.size(), buffer::recv), mixed}) {
            ++cases_;
            const test::program_of_all p = test::staged_program(machine, stages, call, each);
            const auto found = find_fault(p.schedules, p.of);
            ASSERT_FALSE(found) << p.name << ": " << *found;
            if (row_of(call.what).blocks) return;  // blocks have only one home
        }
    }

    // Proves the schedules as generated, if they contain no stages of a transport, and lowered.
    void prove(test::program_of_all p) {
        ++cases_;
        std::vector<schedule>& all = p.schedules;
        const auto check = [&] {
            const auto found = find_fault(all, p.of);
            ASSERT_FALSE(found) << p.name << ": " << *found;
        };
        if (std::none_of(all.begin(), all.end(), has_stages)) check();
        for (schedule& s : all) s = lower(s, {});
        check();
    }

    // A composition for one rank gives the same program as the composition for all ranks.
    void compose_one_by_one(const hierarchy& machine, const std::vector<stage>& stages, collective what,
                            std::int64_t count, std::int64_t quantum, int root) {
        const test::program_of_all all = test::vector_program(machine, stages, what, count, quantum, root);
        for (int rank = 0; rank < machine.ranks(); ++rank) {
            const composition own =
                compose_for(rank, machine, stages, count, quantum, row_of(what).has_root() ? root : -1);
            ASSERT_EQ(generate(own, what, rank), all.schedules[static_cast<std::size_t>(rank)])
                << all.name << ", rank " << rank;
        }
    }

    int cases_ = 0, unfit_ = 0;
    unsigned turn_ = 0;
};

// Proves all stage lists of the machines, each stage tree once; about `sample` per machine above `all_up_to` ranks.
void verify_plans(const std::vector<hierarchy>& machines) {
    verification all;
    const bool everything = test::everything();
    std::set<std::string> seen;
    for (const hierarchy& machine : machines) {
        test::dice d(1);
        std::vector<std::vector<stage>> distinct;
        std::size_t total = 0;
        for (const std::vector<stage>& stages : test::stagings(machine)) {
            if (!seen.insert(test::text(stage_tree(machine, stages))).second) continue;
            distinct.push_back(stages);
            total += test::choices(stages.size());
        }
        const bool every = everything || machine.ranks() <= all_up_to || total <= sample;
        for (const std::vector<stage>& stages : distinct)
            for (std::size_t c = 0; c < test::choices(stages.size()); ++c) {
                if (!every && d.below(total) >= sample) continue;
                all.plan(machine, test::with_choice(stages, c));
                if (testing::Test::HasFailure()) return;
            }
    }
}

TEST(schedules, uniform_machines_verify) {
    std::vector<hierarchy> machines;
    for (int ranks = 1; ranks <= most_ranks; ++ranks)
        for (hierarchy& machine : test::uniform_machines(ranks)) machines.push_back(std::move(machine));
    verify_plans(machines);
}

TEST(schedules, uneven_machines_verify) { verify_plans(test::uneven_machines()); }

// Routes over tori in every combination, with a few algorithms that represent all.
TEST(schedules, routes_over_tori_verify) {
    verification all;
    test::dice d(1);
    for (const hierarchy& machine : test::tori())
        for (const std::vector<stage>& bare : test::stagings(machine)) {
            for (const char* by : {"biring", "halving"}) {
                std::vector<stage> stages = bare;
                for (stage& s : stages) s.how = mode::scatter, s.algorithm = d.coin() ? by : "direct";
                for (const std::vector<stage>& turns : test::turns_of(machine, stages, 2)) {
                    if (!test::everything() && d.below(8) > 0) continue;
                    all.plan(machine, turns);
                    if (testing::Test::HasFailure()) return;
                }
            }
        }
}

// Random runs of the schedules, judged without the verifier.
TEST(schedules, random_interleavings_agree_with_a_serial_sum) {
    test::dice d(test::seed());
    std::vector<hierarchy> machines = test::uneven_machines();
    for (int ranks : {1, 2, 3, 5, 8, 11, 12, 16})
        for (hierarchy& machine : test::uniform_machines(ranks)) machines.push_back(std::move(machine));
    for (hierarchy& machine : test::tori()) machines.push_back(std::move(machine));
    for (int n = test::share("random interleavings", 1000); n > 0; --n) {
        const test::program_of_all p = test::random_program(machines, d);
        ASSERT_EQ(test::judge(p.schedules, 10, d.roll(), p.of), test::verdict::fine) << p.name;
    }
}

// A message at one of its ends: from, to, step, channel, elements.
using message = std::tuple<int, int, int, int, std::int64_t>;

// Expects the same number of steps at every position, and messages whose ends agree.
void check_generator(std::string_view name, algorithm::generator emit, int size, int root) {
    std::vector<int> members;
    std::vector<range> shards;
    const range whole{0, 3 * size + 1};
    for (int i = 0; i < size; ++i) {
        members.push_back(i);
        shards.push_back(partition(whole, size, i));
    }
    std::multiset<message> sent, received;
    std::set<int> steps;
    for (int position = 0; position < size; ++position) {
        builder out(position, size, collective::allreduce, whole.end);
        emit(out, group(members, shards, root).seen_from(position));
        steps.insert(out.step());
        const schedule s = lower(out.finish(), {});
        for (const instr& i : s.instrs) {
            if (i.what == action::send) sent.emplace(position, i.peer, i.step, i.channel, i.src.part.count());
            if (i.what == action::recv || i.what == action::recv_reduce)
                received.emplace(i.peer, position, i.step, i.channel, i.dst.part.count());
        }
    }
    EXPECT_EQ(steps.size(), 1u) << name << ", " << size << " ranks, root " << root;
    EXPECT_EQ(sent, received) << name << ", " << size << " ranks, root " << root;
}

TEST(generators, take_the_same_steps_everywhere_and_agree_on_every_message) {
    for (const std::span<const algorithm> rows : {algorithms(), provider_collectives()})
        for (const algorithm& a : rows)
            for (int size = 1; size <= most_ranks; ++size)
                for (algorithm::generator emit :
                     {a.reduce_scatter, a.allgather, a.reduce, a.broadcast, a.allreduce, a.scatter, a.gather}) {
                    const bool rooted =
                        emit != nullptr && emit != a.reduce_scatter && emit != a.allgather && emit != a.allreduce;
                    for (int root = 0; emit != nullptr && root < (rooted ? size : 1); ++root)
                        check_generator(a.name, emit, size, root);
                }
}

}  // namespace
}  // namespace terrace::detail
