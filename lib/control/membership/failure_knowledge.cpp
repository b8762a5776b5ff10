#include "control/membership/failure_knowledge.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/hash.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

std::uint64_t add_to_hash(std::uint64_t hash, const testimony_of_failure& t) noexcept {
    const std::array words{t.rank, t.by, static_cast<int>(t.shows)};
    return hash ^ hash_of(words.data(), sizeof words);
}

}  // namespace

failed_ranks judge(const std::set<testimony_of_failure>& known, const std::vector<int>& lines) {
    failed_ranks failed;
    std::vector<testimony_of_failure> pairs;
    std::map<int, std::set<int>> in_reach;
    for (const testimony_of_failure& t : known) {
        if (t.shows == evidence::acknowledged) {
            in_reach[t.rank].insert(t.by);
            in_reach[t.by].insert(t.rank);
            continue;
        }
        if (is_of_a_pair(t.shows)) {
            pairs.push_back(t);
            continue;
        }
        const auto [found, is_new] = failed.emplace(t.rank, t.shows);
        if (!is_new) found->second = std::min(found->second, t.shows);
    }
    while (true) {
        std::erase_if(pairs, [&](const auto& t) { return failed.contains(t.rank) || failed.contains(t.by); });
        if (pairs.empty()) return failed;
        std::map<int, std::set<int>> out_of_reach;
        std::map<int, evidence> surest;
        for (const testimony_of_failure& t : pairs)
            for (const auto& [one, other] : {std::pair(t.rank, t.by), std::pair(t.by, t.rank)}) {
                out_of_reach[one].insert(other);
                const auto [found, is_new] = surest.emplace(one, t.shows);
                if (!is_new) found->second = std::min(found->second, t.shows);
            }
        const auto blame = [&](const auto& one) {
            return std::tuple(one.second.size(), lines.empty() ? 0 : -lines[at(one.first)],
                              -static_cast<int>(in_reach[one.first].size()), one.first);
        };
        const auto worst = std::max_element(out_of_reach.begin(), out_of_reach.end(),
                                            [&](const auto& a, const auto& b) { return blame(a) < blame(b); });
        failed.emplace(worst->first, surest[worst->first]);
    }
}

std::uint64_t hash_of_all(const std::set<testimony_of_failure>& known) noexcept {
    std::uint64_t hash = 0;
    for (const testimony_of_failure& t : known) hash = add_to_hash(hash, t);
    return hash;
}

void failure_knowledge::add(const testimony_of_failure& t) {
    testimony_of_failure own = t;
    if (!is_of_a_pair(t.shows) && t.shows != evidence::acknowledged) own.by = t.rank;
    if (!all_.insert(own).second) return;
    hash_ = add_to_hash(hash_, own);
    facts_.push_back(own);
    has_pairs_ = has_pairs_ || is_of_a_pair(own.shows);
    set_changed();
}

bool failure_knowledge::is_in_a_pair(int rank) const {
    return std::ranges::any_of(
        all_, [&](const testimony_of_failure& t) { return is_of_a_pair(t.shows) && (t.rank == rank || t.by == rank); });
}

}  // namespace terrace::detail
