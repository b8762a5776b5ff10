// Rules for Open MPI and MPICH: worth having, read back, and refused if they are damaged.

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "exports/random_calls.hpp"
#include "support/effort.hpp"
#include "support/refusal.hpp"
#include "tools/terrace/exports/formats.hpp"
#include "tools/terrace/exports/library_algorithms.hpp"

namespace terrace::detail::test {
namespace {

plan_data plan_without_torus(dice& d) {
    plan_data plan;
    do plan.machine = with_random_nodes(random_machine(static_cast<int>(2 + d.below(15)), d), d);
    while (plan.machine.has_torus() || plan.machine.ranks() < 2);
    return plan;
}

// The numbers of a file, without its comments.
std::vector<std::string> numbers_of(const std::string& text) {
    std::vector<std::string> found;
    std::istringstream lines(text);
    for (std::string line, number; std::getline(lines, line);) {
        std::istringstream numbers(line.substr(0, line.find('#')));
        while (numbers >> number) found.push_back(number);
    }
    return found;
}

TEST(rules, take_the_place_of_a_choice_that_costs_clearly_more) {
    dice d(seed());
    const int machines = share("machines", 60, 12);
    int replaced = 0, kept = 0;
    for (int n = 0; n < machines; ++n) {
        plan_data plan = plan_without_torus(d);
        const std::vector<std::string> numbers = numbers_of(openmpi_rules(plan, {}));
        hierarchy& late = plan.machine;  // with twice the start-ups, as rules count them
        for (level& l : late.levels) l.latency *= 2, l.overhead *= 2;
        const auto number = [&](std::size_t at) { return std::stoll(numbers.at(at)); };
        std::size_t next = 1;
        for (long long sets = number(0); sets > 0; --sets) {
            const auto c = std::ranges::find(library_collectives(), number(next), &library_collective::openmpi);
            ASSERT_NE(c, library_collectives().end());
            ASSERT_EQ(number(next + 8), late.ranks());
            const long long rules = number(next + 9);
            next += 10;
            for (long long r = 0; r < rules; ++r, next += 4) {
                const long long from = std::max(number(next), 64LL), algorithm = number(next + 1);
                const long long end = r + 1 < rules ? number(next + 4) : 1LL << 24;
                if (algorithm == 0) {
                    ++kept;
                    continue;
                }
                const auto how = std::ranges::find_if(library_algorithms(), [&](const library_algorithm& a) {
                    return a.what == c->what && a.openmpi == algorithm && a.segment == number(next + 3);
                });
                ASSERT_NE(how, library_algorithms().end());
                ++replaced;
                for (int draw = 0; draw < 10; ++draw) {
                    const auto bytes = static_cast<std::int64_t>(from) +
                                       static_cast<std::int64_t>(d.below(static_cast<std::size_t>(end - from)));
                    const library_algorithm* own = openmpi_choice(c->what, late.ranks(), static_cast<double>(bytes));
                    ASSERT_NE(own, nullptr);
                    EXPECT_LT(library_time(late, *how, bytes) * 1.1, library_time(late, *own, bytes)) << fmt::format(
                        "{} of {} on {}: {} for {}", to_string(c->what), bytes, text(late.shape), how->name, own->name);
                }
            }
            next += 6;
        }
        EXPECT_EQ(next, numbers.size());
    }
    EXPECT_GT(replaced, 0);
    EXPECT_GT(kept, 0);
}

TEST(rules, with_a_number_too_few_or_too_many_are_refused) {
    dice d(seed());
    {
        const export_format& format = export_format_of("openmpi-rules");
        const std::string text = format.write(plan_without_torus(d), {});
        EXPECT_EQ(refusal_of([&] { format.read({"rules", text}); }), "accepted");
        const std::vector<std::string> numbers = numbers_of(text);
        for (std::size_t n = 0; n < numbers.size(); ++n)
            for (const bool twice : {false, true}) {
                std::vector<std::string> damaged = numbers;
                const auto there = damaged.begin() + static_cast<std::ptrdiff_t>(n);
                if (twice) damaged.insert(there, numbers[n]);
                else damaged.erase(there);
                const std::string refusal = refusal_of([&] {
                    format.read({"rules", fmt::format("{}", fmt::join(damaged, "\n"))});
                });
                EXPECT_TRUE(refusal.starts_with("rules:")) << refusal << fmt::format(": {}", damaged);
            }
    }
}

// Replaces numbers of a file by invalid ones. The message has the line and column of the error.
TEST(rules, with_another_number_are_refused_where_it_stands) {
    const std::string rules = "# collectives\n1\n2 1\n8 2\n0 3 0 0\n4096 4 0 0\n";
    const auto refusal = [&](std::string_view from, std::string_view to) {
        std::string text = rules;
        text.replace(text.find(from), from.size(), to);
        return refusal_of([&] { read_openmpi_rules({"rules", text}); });
    };
    EXPECT_EQ(read_openmpi_rules({"rules", rules}).says, "2 rules for Open MPI's component tuned");
    EXPECT_EQ(refusal("4096 4", "4096 7"), "rules:6:6: no algorithm from 0 to 6");
    EXPECT_EQ(refusal("4096", "0"), "rules:6:1: message size 0 behind 0: they must rise");
    EXPECT_EQ(refusal("0 3", "1 3"), "rules:5:1: the first message size must be 0");
    EXPECT_EQ(refusal("2 1", "22 1"), "rules:3:1: no collective from 0 to 21");
    EXPECT_EQ(refusal("4 0 0", "4 0"), "rules:7:1: no segment from 0 to 2147483647");
    EXPECT_EQ(refusal("4 0 0\n", "4 0 0\n0"), "rules:7:1: more numbers than the counts before them say");
    EXPECT_EQ(refusal("8 2", "8 x"), "rules:4:3: no count of: message size from 1 to 9223372036854775807");
}

// MPICH aborts on such files.
TEST(rules, of_mpich_with_a_letter_too_few_are_refused) {
    dice d(seed());
    const std::string text = mpich_compositions(plan_without_torus(d), {});
    EXPECT_EQ(refusal_of([&] { read_mpich_compositions({"rules", text}); }), "accepted");
    for (std::size_t n = 0; n < text.size(); ++n) {
        if (std::string_view(" \n0123456789").find(text[n]) != std::string_view::npos) continue;
        if (text[n] == '=' && text[n - 1] == '<') continue;  // "<" is valid, too: another rule
        std::string damaged = text;
        damaged.erase(n, 1);
        const std::string refusal = refusal_of([&] { read_mpich_compositions({"rules", damaged}); });
        EXPECT_TRUE(refusal.starts_with("rules:")) << refusal << ": " << damaged.substr(n, 20);
    }
}

// MPICH 4.0 aborts on these files, or reads another number.
TEST(rules, of_mpich_that_leave_it_without_a_choice_are_refused) {
    const std::string good = R"({"collective=bcast": {"comm_type=intra": {
"is_sendbuf_inplace=yes": {"composition=MPIDI_Bcast_intra_composition_alpha": {}},
"is_sendbuf_inplace=no": {"comm_size<=8": {"composition=MPIDI_Bcast_intra_composition_gamma": {}},
"comm_size=any": {"composition=MPIDI_Bcast_intra_composition_beta": {}}}}}})";
    const auto refusal = [&](std::string_view from, std::string_view to) {
        std::string text = good;
        text.replace(text.find(from), from.size(), to);
        return refusal_of([&] { read_mpich_compositions({"rules", text}); });
    };
    EXPECT_EQ(refusal("", ""), "accepted");
    EXPECT_EQ(refusal("composition=MPIDI_Bcast_intra_composition_alpha", "algorithm=MPIR_Nonsense"),
              "rules:2:55: \"algorithm=MPIR_Nonsense\": only compositions are read");
    const std::string_view none = "MPICH knows no ";
    EXPECT_NE(refusal("Bcast", "Reduce").find(none), std::string::npos);
    EXPECT_NE(refusal("alpha", "delta").find(none), std::string::npos);
    EXPECT_NE(refusal("collective=bcast", "collective=barrier").find(none), std::string::npos);
    EXPECT_NE(refusal("<=8", "<=99999999999999999999").find(none), std::string::npos);
    EXPECT_NE(refusal("<=8", "<=2147483648").find(none), std::string::npos);
    const std::string_view others = "none of these choices holds for all other calls";
    EXPECT_NE(refusal("comm_size=any", "comm_size<=9").find(others), std::string::npos);
    EXPECT_NE(refusal("inplace=no", "inplace=yes ").find(none), std::string::npos);
    EXPECT_NE(refusal("is_sendbuf_inplace=no", "is_commutative=no").find(others), std::string::npos);
    EXPECT_NE(refusal("comm_type=intra", "comm_type=inter").find(others), std::string::npos);
}

}  // namespace
}  // namespace terrace::detail::test
