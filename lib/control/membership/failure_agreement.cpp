#include "control/membership/failure_agreement.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/hash.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

// What ranks say: a testimony, the number of those that the sender knows, and their hash. Where there are none, the
// testimony means nothing.
struct statement {
    int rank = 0, by = 0;
    std::uint32_t shows = 0, all = 0;
    std::uint64_t hash = 0;
};

// Of a set, whatever the order.
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

failure_agreement::failure_agreement(control_router& router, std::chrono::duration<double> patience,
                                     std::vector<int> lines)
    : control_service(router, service::membership), patience_(patience), lines_(std::move(lines)) {}

void failure_agreement::add(const testimony_of_failure& t) {
    testimony_of_failure own = t;
    if (!is_of_a_pair(t.shows) && t.shows != evidence::acknowledged) own.by = t.rank;
    if (!known_.insert(own).second) return;
    hash_ = add_to_hash(hash_, own);
    news_.push_back(own);
    pairs_ = pairs_ || is_of_a_pair(own.shows);
    failed_ = judge(known_, lines_);
    changed_ = clock::now();
}

bool failure_agreement::is_in_a_pair(int rank) const {
    return std::any_of(known_.begin(), known_.end(), [&](const testimony_of_failure& t) {
        return is_of_a_pair(t.shows) && (t.rank == rank || t.by == rank);
    });
}

void failure_agreement::take(int from, const control_frame& f) {
    const auto [rank, by, shows, all, hash] = f.get<statement>();
    const testimony_of_failure one{rank, by, static_cast<evidence>(shows)};
    if (all > 0) add(one);
    round_state& r = rounds_[f.epoch];
    r.heard[from] = hash;
    if (static_cast<membership_kind>(f.kind) != membership_kind::decided) return;
    testimonies& coming = r.verdicts[hash];
    if (all > 0) coming.insert(one);
    if (coming.size() == all && !r.decided) r.decided = hash;
}

// To a rank that is dead nothing is sent; one that is given up for another reason may hear it and give up, too.
void failure_agreement::tell_all(membership_kind what, const std::vector<testimony_of_failure>& which,
                                 std::uint64_t hash, std::size_t all) {
    for (int peer = 0; peer < net_.size(); ++peer) {
        const auto failed = failed_.find(peer);
        if (peer == net_.rank() || (failed != failed_.end() && failure_of(failed->second) == failure::died)) continue;
        const auto send = [&](const testimony_of_failure& t) {
            say(peer, what, {.epoch = round_},
                statement{t.rank, t.by, static_cast<std::uint32_t>(t.shows), static_cast<std::uint32_t>(all), hash});
        };
        for (const testimony_of_failure& t : which) send(t);
        if (which.empty()) send({});
    }
    heard_of_ = true;
}

bool failure_agreement::advance(bool all_come) {
    if (decided_) return true;
    if (known_.empty() && !all_come) return false;
    if (!news_.empty() || !heard_of_) {
        tell_all(membership_kind::knows, news_, hash_, known_.size());
        news_.clear();
    }
    if (const std::optional<std::uint64_t> decided = now().decided) decide(now().verdicts[*decided]);
    else if (is_agreed(all_come)) decide(known_);
    return decided_;
}

bool failure_agreement::is_agreed(bool all_come) const {
    const bool is_out = failed_.contains(net_.rank());
    if (pairs_ && expects_more_ && !all_come) return false;
    if ((!all_come || is_out) && clock::now() - changed_ > patience_) return true;
    const auto state = rounds_.find(round_);
    for (int peer = 0; peer < net_.size(); ++peer) {
        if (peer == net_.rank() || failed_.contains(peer)) continue;
        if (state == rounds_.end()) return false;
        const auto heard = state->second.heard.find(peer);
        if (heard == state->second.heard.end() || heard->second != hash_) return false;
    }
    return true;
}

void failure_agreement::decide(const testimonies& final) {
    std::uint64_t hash = 0;
    for (const testimony_of_failure& t : final) hash = add_to_hash(hash, t);
    verdict_ = judge(final, lines_);
    decided_ = true;
    tell_all(membership_kind::decided, {final.begin(), final.end()}, hash, final.size());
}

void failure_agreement::next_round() {
    rounds_.erase(round_++);
    verdict_.clear();
    decided_ = heard_of_ = false;
    if (news_.empty() && !known_.empty()) news_.push_back(*known_.begin());  // to be heard at all
    changed_ = clock::now();
}

std::vector<int> failure_agreement::silent() const {
    const auto state = rounds_.find(round_);
    std::vector<int> ranks;
    for (int peer = 0; peer < net_.size(); ++peer)
        if (peer != net_.rank() && !failed_.contains(peer) &&
            (state == rounds_.end() || !state->second.heard.contains(peer)))
            ranks.push_back(peer);
    return ranks;
}

}  // namespace terrace::detail
