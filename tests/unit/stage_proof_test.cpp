// The proof of stages in shared memory: it accepts the stages that run, and refuses changed ones.

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/index.hpp"
#include "schedule/builder.hpp"
#include "schedule/verify/stage_steps.hpp"
#include "support/programs.hpp"

namespace terrace::detail::test::stage_proof_test {

namespace {

using proof::member_memory;

constexpr int size = 3, root = 1;
constexpr std::array<range, size> shards{{{10, 14}, {14, 16}, {16, 22}}};
constexpr std::array all_stages{action::stage_reduce_scatter, action::stage_allgather, action::stage_allreduce,
                                action::stage_reduce, action::stage_broadcast};

// ---- one stage ----

// A stage with one wait left out, or with members that read or write more than in `right`.
struct mutant {
    stage_work right;
    int round_of = -1, deaf = -1, unheard = -1;  // in this round one member does not wait for another
    bool reads_all = false, writes_all = false;

    int rounds() const { return right.rounds(); }
    const stage_round& round(int r) const { return right.round(r); }
    bool awaits(int r, int member, int peer) const {
        return right.awaits(r, member, peer) && !(r == round_of && member == deaf && peer == unheard);
    }
    range read(int r, int reader, int owner, std::span<const range> all) const {
        return reads_all ? range{all.front().begin, all.back().end} : right.read(r, reader, owner, all);
    }
    range written(int r, int writer, int owner, std::span<const range> all) const {
        const range part = right.written(r, writer, owner, all);
        return writes_all && !part.empty() ? range{all.front().begin, all.back().end} : part;
    }
};

using memories = std::array<member_memory, size>;

template <class Work>
std::optional<std::string> fault_of(const Work& work, const memories& members) {
    return proof::find_stage_fault(work, std::span<const member_memory>(members), shards);
}

// Calls f(members, any in place, all reachable) for every kind of memory on every member.
template <class F>
void for_each_memory(F&& f) {
    for (int bits = 0; bits < 1 << 2 * size; ++bits) {
        memories members;
        bool any_in_place = false, all_reachable = true;
        for (int m = 0; m < size; ++m) {
            members[at(m)].in_place = (bits >> 2 * m & 1) != 0;
            // A result in place is in memory that peers read.
            members[at(m)].result_reachable = members[at(m)].in_place || (bits >> 2 * m & 2) != 0;
            any_in_place |= members[at(m)].in_place;
            all_reachable &= members[at(m)].result_reachable;
        }
        f(members, any_in_place, all_reachable);
    }
}

// Calls f(work, members) for every stage as the library runs it.
template <class F>
void for_each_stage(F&& f) {
    for_each_memory([&](const memories& members, bool any_in_place, bool all_reachable) {
        for (const action what : all_stages)
            for (const bool by_shards : {false, true})
                f(stage_work(what, root, sharing_of(by_shards, any_in_place, all_reachable)), members);
    });
}

// ---- programs ----

const hierarchy machine = machine_of(tree::uniform(std::vector{3, 2}));
const std::vector<stage> stages{{{0}, 3, mode::scatter, "", provider::shared_memory}, {{1}, 2, mode::scatter, "ring"}};
const hierarchy one_node = machine_of(tree::uniform(std::vector{4}));

std::vector<stage> alone(mode how) { return {{{0}, 4, how, "", provider::shared_memory}}; }

program_of_all node_program(mode how, buffer home) {
    return staged_program(one_node, alone(how), {.count = 40}, std::vector(4, home));
}

instr& stage_of(schedule& s) {
    return *std::find_if(s.instrs.begin(), s.instrs.end(), [](const instr& i) { return is_stage(i.what); });
}

// Changes the first stage of one rank, or of all, and expects a fault with this part of a text.
void expect_fault(program_of_all p, int rank, const std::function<void(schedule&, instr&)>& change,
                  std::string_view part_of_text) {
    for (schedule& s : p.schedules)
        if (rank < 0 || s.rank == rank) change(s, stage_of(s));
    const auto found = find_fault(p.schedules, p.of);
    ASSERT_TRUE(found) << "expected: " << part_of_text;
    EXPECT_NE(found->find(part_of_text), std::string::npos) << *found;
}

constexpr int everywhere = -1;

}  // namespace

TEST(stage_proof, accepts_every_stage_as_it_runs) {
    for_each_stage([](const stage_work& work, const memories& members) {
        const auto fault = fault_of(work, members);
        EXPECT_FALSE(fault) << *fault;
    });
}

TEST(stage_proof, refuses_every_stage_with_one_wait_less) {
    int mutants = 0;
    for_each_stage([&](const stage_work& work, const memories& members) {
        for (int r = 0; r <= work.rounds(); ++r)
            for (int member = 0; member < size; ++member)
                for (int peer = 0; peer < size; ++peer) {
                    if (!work.awaits(r, member, peer)) continue;
                    ++mutants;
                    EXPECT_TRUE(fault_of(mutant{work, r, member, peer}, members))
                        << "round " << r << ", member " << member << ", peer " << peer;
                }
    });
    EXPECT_GT(mutants, 1000);
}

TEST(stage_proof, refuses_allreduces_shared_otherwise_than_their_memory_allows) {
    for_each_memory([](const memories& members, bool any_in_place, bool all_reachable) {
        const auto fault = [&](sharing how) {
            return fault_of(stage_work(action::stage_allreduce, root, how), members);
        };
        EXPECT_EQ(fault(sharing::replicated).has_value(), any_in_place);
        EXPECT_EQ(fault(sharing::push).has_value(), !all_reachable);
        EXPECT_FALSE(fault(sharing::pull));
    });
}

TEST(stage_proof, refuses_members_that_use_more_than_their_shard) {
    memories in_place;
    for (member_memory& m : in_place) m.in_place = true;
    for (const sharing how : {sharing::push, sharing::pull}) {
        const stage_work work(action::stage_allreduce, root, how);
        EXPECT_TRUE(fault_of(mutant{.right = work, .reads_all = true}, in_place));
        EXPECT_TRUE(fault_of(mutant{.right = work, .writes_all = true}, in_place));
    }
    const stage_work work(action::stage_reduce_scatter);
    EXPECT_TRUE(fault_of(mutant{.right = work, .writes_all = true}, in_place));
}

// A rank may read its own input from memory in which peers write the result, but only its own shard.
TEST(stage_proof, refuses_a_result_written_over_what_a_member_has_still_to_add) {
    memories members;
    members[0].own_in_result = true;
    const stage_work push(action::stage_allreduce, root, sharing::push);
    EXPECT_FALSE(fault_of(push, members));
    EXPECT_TRUE(fault_of(mutant{.right = push, .reads_all = true}, members));
}

TEST(stage_proof, accepts_programs_with_stages) {
    for (const buffer home : {buffer::scratch, buffer::recv}) {
        for (const mode how : {mode::scatter, mode::replicate}) {
            const program_of_all p = node_program(how, home);
            EXPECT_EQ(find_fault(p.schedules, p.of), std::nullopt);
        }
        const program_of_all p = staged_program(machine, stages, {.count = 100}, std::vector(6, home));
        EXPECT_EQ(find_fault(p.schedules, p.of), std::nullopt);
    }
}

TEST(stage_proof, refuses_members_that_differ) {
    const program_of_all p = staged_program(machine, stages, {.count = 100}, std::vector(6, buffer::scratch));
    expect_fault(
        p, 1, [](schedule&, instr& i) { ++i.channel; }, "does not run this stage");
    expect_fault(
        p, 1, [](schedule&, instr& i) { i.what = action::stage_allgather; }, "on other terms");
    expect_fault(
        p, 2,
        [](schedule& s, instr& i) {
            group& g = s.groups[at(i.peer)];
            std::vector<range> cut = g.shards();
            --cut[0].end, --cut[1].begin;
            g = g.with_shards(cut);
        },
        "its group is another one");
    expect_fault(
        node_program(mode::scatter, buffer::scratch), 3, [](schedule&, instr& i) { i.sources = 0; }, "on other terms");
    expect_fault(
        node_program(mode::scatter, buffer::scratch), 3, [](schedule&, instr& i) { i.completes = false; },
        "on other terms");
}

TEST(stage_proof, refuses_operands_that_do_not_hold_what_peers_use) {
    const program_of_all p = node_program(mode::replicate, buffer::scratch);
    expect_fault(
        p, 2, [](schedule&, instr& i) { --i.src.part.end; }, "of rank 2, which gives");
    expect_fault(
        p, 2, [](schedule&, instr& i) { ++i.dst.part.begin; }, "of rank 2, which gets");
    expect_fault(
        p, 2, [](schedule&, instr& i) { i.src.where = buffer::recv; }, "peers do not reach recv");
    expect_fault(
        p, everywhere, [](schedule&, instr& i) { i.dst.where = buffer::send; }, "writes what the caller");
}

TEST(stage_proof, refuses_what_is_not_there_yet) {
    // The shard is not in the memory that peers read.
    expect_fault(
        node_program(mode::scatter, buffer::scratch), everywhere, [](schedule&, instr& i) { i.sources = 0; },
        "but not all of it has been written");
    // The copy into that memory may be too late.
    expect_fault(
        node_program(mode::replicate, buffer::scratch), 0,
        [](schedule& s, instr& i) {
            s.instrs.front().successors = 0;
            i.waits = 0;
        },
        "may run before instruction 0");
}

TEST(stage_proof, refuses_wrong_results) {
    const program_of_all p = node_program(mode::scatter, buffer::scratch);
    expect_fault(
        p, everywhere, [](schedule&, instr& i) { i.completes = false; }, "no reduction completed the sum");
    expect_fault(
        p, everywhere, [](schedule&, instr& i) { i.dst.where = buffer::scratch; }, "nothing is written");
    expect_fault(
        staged_program(machine, stages, {.count = 100}, std::vector(6, buffer::scratch)), everywhere,
        [](schedule&, instr& i) { i.completes = true; }, "lacks contributions");
}

// Rank 0 arrives at a stage only after a message that rank 1 sends after the stage.
TEST(stage_proof, refuses_ranks_that_wait_for_one_another) {
    const group g({0, 1}, {{0, 2}, {2, 4}});
    std::vector<schedule> all;
    for (const int rank : {0, 1}) {
        builder out(rank, 2, collective::allreduce, 4, {buffer::scratch, true});
        out.owns({0, 4});
        out.begin_role({.outermost = true});
        const auto stage = [&] {
            out.run_by_provider(provider::shared_memory, action::stage_allreduce, g.seen_by(rank));
        };
        if (rank == 1) stage();
        if (rank == 0) out.recv(1, range{0, 1});
        else out.send(0, range{0, 1});
        if (rank == 0) stage();
        out.deliver();
        all.push_back(out.finish());
    }
    const auto found = find_fault(all);
    ASSERT_TRUE(found);
    EXPECT_NE(found->find("never completes: a deadlock"), std::string::npos) << *found;
}

}  // namespace terrace::detail::test::stage_proof_test
