#include "transport/agreement.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/hash.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

std::string listed(std::span<const int> ranks) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t last = i;
        while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
        text += text.empty() ? "" : ", ";
        text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
        i = last + 1;
    }
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", text);
}

}  // namespace

std::string ranks_named(std::span<const int> ranks, std::span<const int> world_ranks) {
    std::vector<int> in_world;
    if (!world_ranks.empty())
        for (const int r : ranks) in_world.push_back(world_ranks[at(r)]);
    const bool differ = !in_world.empty() && !std::ranges::equal(ranks, in_world);
    return listed(ranks) + (differ ? fmt::format(" ({} of the world)", listed(in_world)) : "");
}

std::string differences(std::span<const std::string> all) {
    std::map<std::string, std::vector<int>> ranks;
    for (std::size_t r = 0; r < all.size(); ++r) ranks[all[r]].push_back(static_cast<int>(r));
    if (ranks.size() <= 1) return {};
    std::vector<std::pair<std::string, std::vector<int>>> groups(ranks.begin(), ranks.end());
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    std::string text;
    for (const auto& [value, who] : groups)
        text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", ranks_named(who), who.size() == 1 ? "has" : "have",
                            value);
    return text;
}

// Texts travel only where their hashes differ: they may be long, and as a rule all are equal.
void require_same(team& ranks, const std::string& own) {
    const std::uint64_t hash = hash_of(own.data(), own.size());
    std::vector<std::uint64_t> hashes(at(ranks.size()));
    ranks.gather_all(&hash, hashes.data(), sizeof hash);
    if (std::all_of(hashes.begin(), hashes.end(), [&](std::uint64_t h) { return h == hashes.front(); })) return;
    throw plan_error("ranks differ: " + differences(ranks.exchange(own)));
}

}  // namespace terrace::detail
