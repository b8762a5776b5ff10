#include "support/parts.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "support/calls.hpp"

namespace terrace::detail::test {

namespace {

std::string trouble_with_results(communicator& comm) {
    std::uint64_t salt = 0;
    for (const collective what : all_collectives) {
        const call c{.what = what, .count = 2 * comm.size() + 3, .counts = {}, .root = comm.size() - 1};
        if (make(comm, c, ++salt).wrong != 0) return fmt::format("wrong: {} on {} ranks", describe(c), comm.size());
    }
    return {};
}

// Returns the members of a part by their rank in it, as ranks of the whole communicator.
std::vector<std::int32_t> members_of(communicator& part, int mine) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(part.size()));
    const std::int32_t own = mine;
    part.allgather(std::span(&own, 1), std::span(all));
    return all;
}

}  // namespace

std::vector<split_case> split_cases(int ranks) {
    const auto made = [&](const std::string& name, auto color, auto key) {
        split_case c{name, {}, {}};
        for (int r = 0; r < ranks; ++r) {
            c.colors.push_back(color(r));
            c.keys.push_back(key(r));
        }
        return c;
    };
    const auto same = [](int) { return 0; };
    const auto backwards = [](int r) { return -r; };
    return {made(
                "halves", [&](int r) { return r < ranks / 2 ? 7 : 3; }, same),
            made(
                "odd and even", [](int r) { return r % 2; }, backwards),
            made(
                "one alone", [](int r) { return r == 1 ? 1 : 0; }, same),
            made(
                "everybody alone", [](int r) { return r; }, same),
            made("all, backwards", same, backwards),
            made(
                "every third left out", [](int r) { return r % 3 == 2 ? -1 : 5; }, [](int r) { return r % 2; })};
}

std::string trouble_with_split(communicator& comm, const split_case& how) {
    const int me = comm.rank(), mine = how.colors[static_cast<std::size_t>(me)];
    std::vector<std::int32_t> expected;
    for (int r = 0; r < comm.size(); ++r)
        if (how.colors[static_cast<std::size_t>(r)] == mine) expected.push_back(r);
    const auto key = [&](int r) { return how.keys[static_cast<std::size_t>(r)]; };
    std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) { return key(a) < key(b); });
    std::optional<communicator> part = comm.split(mine, key(me));
    if (part.has_value() != (mine >= 0)) return "a part where there should be none, or the other way round";
    if (part) {
        if (part->size() != static_cast<int>(expected.size())) return fmt::format("size {}", part->size());
        if (expected[static_cast<std::size_t>(part->rank())] != me) return fmt::format("rank {}", part->rank());
        if (members_of(*part, me) != expected) return "others are in the part, or in another order";
    }
    // Checks the part and the whole by turns, then a part of the part.
    for (int turn = 0; turn < 2; ++turn) {
        if (part)
            if (std::string t = trouble_with_results(*part); !t.empty()) return t;
        if (std::string t = trouble_with_results(comm); !t.empty()) return t;
    }
    if (!part) return {};
    std::optional<communicator> nested = part->split(part->rank() < 2 ? 0 : 1);
    const int nested_size = part->rank() < 2 ? std::min(2, part->size()) : part->size() - 2;
    if (!nested || nested->size() != nested_size) return "nested size";
    part.reset();
    return trouble_with_results(*nested);
}

}  // namespace terrace::detail::test
