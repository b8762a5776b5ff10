// Corrupts one field of a schedule. Random interleavings decide, without the verifier, whether the mutant is harmful.
// The verifier must refuse every harmful mutant. It also refuses some harmless ones: with a wrong step number that only
// in-order transports need, or without a dependency that no random interleaving happened to miss.

#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schedule/verify.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"
#include "support/interleave.hpp"
#include "support/programs.hpp"

namespace terrace::detail {
namespace {

constexpr int mutants = 2000, interleavings = 200;

using program = std::vector<schedule>;

// Instructions that wait for each instruction, in a form that is easy to change.
using order_graph = std::vector<std::vector<std::uint32_t>>;

order_graph order_of(const schedule& s) {
    order_graph after;
    for (const instr& i : s.instrs) {
        const auto successors = s.successors_of(i);
        after.emplace_back(successors.begin(), successors.end());
    }
    return after;
}

void set_order(schedule& s, const order_graph& after) {
    s.successors.clear();
    for (instr& i : s.instrs) i.waits = 0;
    for (std::size_t n = 0; n < s.instrs.size(); ++n) {
        s.instrs[n].first_successor = static_cast<std::uint32_t>(s.successors.size());
        s.instrs[n].successors = static_cast<std::uint32_t>(after[n].size());
        for (std::uint32_t then : after[n]) {
            s.successors.push_back(then);
            ++s.instrs[then].waits;
        }
    }
}

// Changes one field of the instruction. Returns false if the instruction has no such field, or has not changed.
using mutation = bool (*)(schedule&, instr&, test::dice&);

bool is_message(const instr& i) { return i.peer >= 0; }

operand& some_operand(schedule& s, instr& i, test::dice& d) {
    if (i.what == action::reduce && d.coin()) return s.sources[i.first_source + d.below(i.sources)];
    if (i.what == action::send) return i.src;
    if (i.what == action::recv || i.what == action::reduce) return i.dst;
    return d.coin() ? i.src : i.dst;
}

std::int64_t nudge(test::dice& d) { return (d.coin() ? 1 : -1) * static_cast<std::int64_t>(1 + d.below(2)); }

bool change_kind(schedule&, instr& i, test::dice& d) {
    const action before = i.what;
    i.what = static_cast<action>(d.below(5));
    return i.what != before;
}

bool change_peer(schedule& s, instr& i, test::dice& d) {
    if (!is_message(i)) return false;
    const int before = i.peer;
    i.peer = static_cast<int>(d.below(static_cast<std::size_t>(s.ranks) + 1));
    return i.peer != before;
}

bool change_step(schedule&, instr& i, test::dice& d) {
    i.step += static_cast<int>(nudge(d));
    return true;
}

bool change_channel(schedule&, instr& i, test::dice& d) {
    if (!is_message(i)) return false;
    i.channel += d.coin() ? 1 : -1;
    return true;
}

bool change_begin(schedule& s, instr& i, test::dice& d) {
    some_operand(s, i, d).part.begin += nudge(d);
    return true;
}

bool change_end(schedule& s, instr& i, test::dice& d) {
    some_operand(s, i, d).part.end += nudge(d);
    return true;
}

bool change_place(schedule& s, instr& i, test::dice& d) {
    range& part = some_operand(s, i, d).part;
    const std::int64_t by = nudge(d);
    part = {part.begin + by, part.end + by};
    return true;
}

bool change_buffer(schedule& s, instr& i, test::dice& d) {
    buffer& where = some_operand(s, i, d).where;
    const buffer before = where;
    where = static_cast<buffer>(d.below(3));
    return where != before;
}

bool swap_sources(schedule& s, instr& i, test::dice& d) {
    if (i.what != action::reduce) return false;
    operand& a = s.sources[i.first_source + d.below(i.sources)];
    operand& b = s.sources[i.first_source + d.below(i.sources)];
    std::swap(a, b);
    return !(a == b);
}

bool drop_source(schedule&, instr& i, test::dice&) {
    if (i.what != action::reduce) return false;
    --i.sources;
    return true;
}

bool drop_wait(schedule& s, instr& i, test::dice& d) {
    order_graph after = order_of(s);
    auto& mine = after[static_cast<std::size_t>(&i - s.instrs.data())];
    if (mine.empty()) return false;
    mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(d.below(mine.size())));
    set_order(s, after);
    return true;
}

// Makes any instruction of the schedule, also an earlier one, wait for `i`.
bool add_wait(schedule& s, instr& i, test::dice& d) {
    order_graph after = order_of(s);
    auto& mine = after[static_cast<std::size_t>(&i - s.instrs.data())];
    mine.push_back(static_cast<std::uint32_t>(d.below(s.instrs.size())));
    set_order(s, after);
    return true;
}

bool change_count_of_waits(schedule&, instr& i, test::dice& d) {
    if (i.waits == 0 || d.coin()) ++i.waits;
    else --i.waits;
    return true;
}

// Swaps the instruction and the next one in program order. Both keep the instructions that they wait for.
bool swap_instructions(schedule& s, instr& i, test::dice&) {
    const auto n = static_cast<std::uint32_t>(&i - s.instrs.data()), m = n + 1;
    if (m == s.instrs.size()) return false;
    order_graph after = order_of(s);
    std::swap(s.instrs[n], s.instrs[m]);
    std::swap(after[n], after[m]);
    for (auto& successors : after)
        for (std::uint32_t& then : successors) then = then == n ? m : then == m ? n : then;
    set_order(s, after);
    return true;
}

bool shrink_scratch(schedule& s, instr&, test::dice&) { return s.scratch-- > 0; }

// Clears `completes` of a reduction that completes a sum, or sets it for another reduction.
bool change_completion(schedule&, instr& i, test::dice&) {
    if (i.what != action::recv_reduce && i.what != action::reduce) return false;
    i.completes = !i.completes;
    return true;
}

// Moves `completes` to or from another reduction.
bool move_completion(schedule& s, instr& i, test::dice& d) {
    instr& other = d.pick(s.instrs);
    if (i.completes == other.completes || (other.what != action::recv_reduce && other.what != action::reduce))
        return false;
    return change_completion(s, i, d) && change_completion(s, other, d);
}

constexpr std::array<std::pair<std::string_view, mutation>, 17> mutations{{
    {"kind", change_kind},
    {"peer", change_peer},
    {"step", change_step},
    {"channel", change_channel},
    {"begin", change_begin},
    {"end", change_end},
    {"place", change_place},
    {"buffer", change_buffer},
    {"order of sources", swap_sources},
    {"one source less", drop_source},
    {"one wait less", drop_wait},
    {"one wait more", add_wait},
    {"number of waits", change_count_of_waits},
    {"order of instructions", swap_instructions},
    {"scratch", shrink_scratch},
    {"completion", change_completion},
    {"place of completion", move_completion},
}};

// Returns machines of two to eight ranks.
std::vector<hierarchy> small_machines() {
    std::vector<hierarchy> all = test::uneven_machines();
    std::erase_if(all, [](const hierarchy& m) { return m.ranks() > 8; });
    for (int ranks = 2; ranks <= 8; ++ranks)
        for (hierarchy& machine : test::uniform_machines(ranks)) all.push_back(std::move(machine));
    return all;
}

// Corrupts the program in one place. Returns nothing if the chosen instruction has no such field.
std::optional<program> mutate(program p, mutation how, test::dice& d) {
    schedule& s = d.pick(p);
    if (s.instrs.empty() || !how(s, d.pick(s.instrs), d)) return {};
    return p;
}

struct tally {
    int harmful = 0, harmless = 0, missed = 0, refused_harmless = 0;
};

TEST(mutations, every_harmful_mutant_is_refused) {
    const std::vector<hierarchy> machines = small_machines();
    test::dice d(test::seed());
    std::map<std::string_view, tally> by_change, by_collective;
    tally sum;
    for (int made = 0; made < mutants;) {
        const auto& [name, how] = mutations[static_cast<std::size_t>(made) % mutations.size()];
        const test::program_of_all original = test::random_program(machines, d);
        const std::optional<program> mutant = mutate(original.schedules, how, d);
        if (!mutant) continue;
        ++made;
        const bool refused = find_fault(*mutant, original.of).has_value();
        const bool harmful = test::judge(*mutant, interleavings, d.roll(), original.of) != test::verdict::fine;
        const collective what = original.schedules.front().what;
        for (tally* t : {&by_change[name], &by_collective[to_string(what)], &sum}) {
            t->harmful += harmful;
            t->harmless += !harmful;
            t->missed += harmful && !refused;
            t->refused_harmless += !harmful && refused;
        }
        EXPECT_FALSE(harmful && !refused) << "mutant " << made << ", changed " << name << ": " << original.name;
    }
    const auto print = [](std::string_view name, const tally& t) {
        fmt::print("{:<22} {:>8} {:>7} {:>9} {:>12} {:>17}\n", name, t.harmful, t.missed, t.harmless,
                   t.harmless - t.refused_harmless, t.refused_harmless);
    };
    fmt::print("seed {}, {} mutants, {} interleavings each\n", test::seed(), mutants, interleavings);
    fmt::print("{:<22} {:>8} {:>7} {:>9} {:>12} {:>17}\n", "changed", "harmful", "missed", "harmless", "and accepted",
               "but still refused");
    for (const auto& [name, t] : by_change) print(name, t);
    for (const auto& [name, t] : by_collective) print(name, t);
    print("all", sum);
    for (collective what : all_collectives) EXPECT_GT(by_collective[to_string(what)].harmful, 0) << to_string(what);
    EXPECT_EQ(sum.missed, 0);
    EXPECT_GT(sum.harmful, mutants * 3 / 10);
}

}  // namespace
}  // namespace terrace::detail
