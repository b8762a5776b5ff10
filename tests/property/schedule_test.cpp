// Every algorithm of the registry at every stage of every shape, for every collective that it can do, proved by the
// verifier. TERRACE_TEST_ALL=1 takes all cases; without it, all up to 12 ranks (7 with sanitizers) and a fixed sample
// above.

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "schedule/compose.hpp"
#include "schedule/lower.hpp"
#include "schedule/registry.hpp"
#include "schedule/verify.hpp"
#include "support/dice.hpp"
#include "support/interleave.hpp"
#include "support/shapes.hpp"

namespace terrace {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int all_up_to = 7;  // some thirty times as slow
#else
constexpr int all_up_to = 12;
#endif
constexpr int most_ranks = 24, sample = 100;

std::vector<std::int64_t> counts_for(int ranks) { return {0, 1, ranks - 1, ranks, 2 * ranks + 3}; }

std::set<int> roots_for(int ranks) {
    std::set<int> roots{0, ranks / 2, ranks - 1};
    if (ranks <= 6)
        for (int r = 1; r < ranks; ++r) roots.insert(r);
    return roots;
}

// The blocks of calls that are hard on P ranks, in the caller's buffer of all.
std::vector<std::vector<range>> block_cases(int ranks) {
    using count_of = std::function<std::int64_t(int rank)>;
    std::vector<std::vector<range>> all;
    const auto add = [&](std::int64_t gap, bool backwards, const count_of& count) {
        std::vector<range> blocks(static_cast<std::size_t>(ranks));
        std::int64_t end = 0;
        for (int n = 0; n < ranks; ++n) {
            const int rank = backwards ? ranks - 1 - n : n;
            blocks[static_cast<std::size_t>(rank)] = {end, end + count(rank)};
            end += count(rank) + gap;
        }
        all.push_back(std::move(blocks));
    };
    for (std::int64_t equal : counts_for(ranks)) add(0, false, [&](int) { return equal; });
    add(5, false, [](int) { return 3; });  // one chunk of each block
    add(0, true, [](int rank) { return rank % 3 * 2; });
    add(0, false, [&](int rank) { return rank == ranks / 2 ? 2 * ranks + 3 : 0; });
    add(2, true, [&](int rank) { return rank == ranks / 2 ? 0 : 1 + rank % 4; });
    return all;
}

std::vector<schedule> program(const hierarchy& machine, const std::vector<stage>& stages, std::int64_t count,
                              std::int64_t quantum) {
    std::vector<schedule> all;
    for (const schedule& s : generate_all(compose(machine, stages, count, quantum), collective::allreduce))
        all.push_back(lower(s, {}));
    return all;
}

bool has_stages(const schedule& s) {
    return std::any_of(s.instrs.begin(), s.instrs.end(), [](const instr& i) { return is_stage(i.what); });
}

// Counts and reports; the first failures stop a test, since one bug makes thousands.
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
            if (!std::all_of(stages.begin(), stages.end(), [&](const stage& s) { return can(s.how, what); })) continue;
            if (has_blocks(what))
                for (const std::vector<range>& blocks : block_cases(machine.ranks()))
                    prove_blocks(name, machine, stages, what, blocks);
            else
                for (int root : has_root(what) ? roots_for(machine.ranks()) : std::set{-1})
                    prove_vectors(name, machine, stages, what, root);
        }
    }

private:
    void prove_vectors(const std::string& name, const hierarchy& machine, const std::vector<stage>& stages,
                       collective what, int root) {
        const auto prove_one = [&](std::int64_t count, std::int64_t quantum) {
            prove(fmt::format("{}, {} of {}, root {}, quantum {}", name, to_string(what), count, root, quantum),
                  generate_all(compose(machine, stages, count, quantum, root), what), {.root = root, .blocks = {}});
        };
        for (std::int64_t count : counts_for(machine.ranks())) prove_one(count, 1);
        prove_one(40 * machine.ranks() + 3, 16);
    }

    void prove_blocks(const std::string& name, const hierarchy& machine, const std::vector<stage>& stages,
                      collective what, const std::vector<range>& blocks) {
        std::vector<std::int64_t> counts, begins;
        for (range b : blocks) {
            counts.push_back(b.count());
            begins.push_back(b.begin);
        }
        const block_layout layout = compose_blocks(machine, stages, counts);
        std::vector<schedule> all;
        for (int rank = 0; rank < machine.ranks(); ++rank) all.push_back(generate(layout, what, rank, begins));
        prove(fmt::format("{}, {} of blocks of {}, at {}", name, to_string(what), counts, begins), std::move(all),
              {.root = 0, .blocks = blocks});
    }

    // As generated, where a transport without stages of its own could run that, and lowered.
    void prove(const std::string& name, std::vector<schedule> all, const expectation& of) {
        ++cases_;
        const auto check = [&] {
            const auto found = find_fault(all, of);
            ASSERT_FALSE(found) << name << ": " << *found;
        };
        if (std::none_of(all.begin(), all.end(), has_stages)) check();
        for (schedule& s : all) s = lower(s, {});
        check();
    }

    int cases_ = 0, unfit_ = 0;
};

// All stage lists of the machines, each stage tree once; above all_up_to ranks a sample of `sample` per machine.
void verify_plans(const std::vector<hierarchy>& machines) {
    verification all;
    const bool everything = std::getenv("TERRACE_TEST_ALL") != nullptr;
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

// The same by a judge that knows nothing of the verifier's reasoning.
TEST(schedules, random_interleavings_agree_with_a_serial_sum) {
    test::dice d(2);
    std::vector<hierarchy> machines = test::uneven_machines();
    for (int ranks : {1, 2, 3, 5, 8, 11, 12, 16})
        for (hierarchy& machine : test::uniform_machines(ranks)) machines.push_back(std::move(machine));
    for (int n = 0; n < 500; ++n) {
        const hierarchy& machine = d.pick(machines);
        auto all = test::stagings(machine);
        std::vector<stage> stages = d.pick(all);
        stages = test::with_choice(stages, d.below(test::choices(stages.size())));
        if (!test::fits(machine, stages)) continue;
        auto counts = counts_for(machine.ranks());
        const std::int64_t count = d.pick(counts);
        ASSERT_EQ(test::judge(program(machine, stages, count, 1), 10, d.roll()), test::verdict::fine)
            << test::text(machine.shape) << ": " << describe(machine, stages) << ", count " << count;
    }
}

// One message as one end sees it: from, to, step, channel, elements.
using message = std::tuple<int, int, int, int, std::int64_t>;

// The generator's part of every position: the same number of steps, and both ends of every message agree.
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
        emit(out, {members, shards, whole, position, root});
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
    for (const algorithm& a : algorithms())
        for (int size = 1; size <= most_ranks; ++size)
            for (algorithm::generator emit : {a.reduce_scatter, a.allgather, a.reduce, a.broadcast, a.allreduce}) {
                const bool rooted = emit != nullptr && (emit == a.reduce || emit == a.broadcast);
                for (int root = 0; emit != nullptr && root < (rooted ? size : 1); ++root)
                    check_generator(a.name, emit, size, root);
            }
}

}  // namespace
}  // namespace terrace
