#include "statistics/late_ranks.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

namespace terrace::detail {

namespace {

constexpr std::int64_t most_parts = 10;  // parts into which a report divides calls
constexpr std::size_t seldom = 20;       // a delay in fewer than one of this many slices is not steady

// A rank or host stands out if it holds up others for more than `least_part` of the time in calls. It must also do so
// more than `times_the_others` times as long as three quarters of the others.
constexpr double least_part = 0.01, times_the_others = 2;
// A host is late as a whole if none of its ranks has more than this part of its delay.
constexpr double most_of_a_host = 0.7;

// Waits of the ranks of one communicator in one slice of calls.
struct slice {
    std::map<int, double> longest;  // by rank: longest wait of another rank for it [s]
    std::map<int, double> own;      // by rank: total of its own waits [s]
};

using slices = std::map<std::int64_t, slice>;  // by first call of the slice

// Groups waits by slice. All ranks get slices of one length: the longest of any rank.
slices slices_of(const std::vector<const rank_statistics*>& files) {
    std::int64_t length = 1;
    for (const rank_statistics* f : files) length = std::max(length, f->counted.calls_per_slice);
    slices made;
    for (const rank_statistics* f : files) {
        std::map<std::pair<std::int64_t, int>, double> by_peer;
        for (const statistics::wait& w : f->counted.waits)
            by_peer[{(w.first_call - 1) / length * length + 1, w.rank}] += w.seconds;
        for (const auto& [where, seconds] : by_peer) {
            slice& s = made[where.first];
            double& longest = s.longest[where.second];
            longest = std::max(longest, seconds);
            s.own[f->rank] += seconds;
        }
    }
    return made;
}

// Returns the rank or host that stands out; null if none does.
template <class Key>
const std::pair<const Key, rank_lateness>* worst_of(const std::map<Key, rank_lateness>& all, double least,
                                                    double rank_lateness::*how) {
    std::vector<const std::pair<const Key, rank_lateness>*> sorted;
    for (const auto& each : all) sorted.push_back(&each);
    if (sorted.size() < 2) return nullptr;
    std::ranges::sort(sorted, std::greater(), [&](const auto* each) { return each->second.*how; });
    const double worst = sorted.front()->second.*how, others = sorted[1 + (sorted.size() - 1) / 4]->second.*how;
    return worst > least && worst > times_the_others * others ? sorted.front() : nullptr;
}

// Returns a sentence about the rank or host that stands out; empty if none does.
std::string sentence_of(const lateness& of, double rank_lateness::*how, std::string_view is) {
    const double least = least_part * of.seconds;
    const auto text = [&](const std::string& who, double held_up) {
        return fmt::format("{} {}: others waited for it {:.3g} s, {:.0f} % of the {:.3g} s in calls", who, is, held_up,
                           100 * held_up / of.seconds, of.seconds);
    };
    if (const auto* host = worst_of(of.hosts, least, how)) {
        double most = 0;
        for (const auto& [rank, r] : of.ranks)
            if (r.host == host->first) most = std::max(most, r.*how);
        if (most <= most_of_a_host * (host->second.*how)) return text("host " + host->first, host->second.held_up);
    }
    const auto* rank = worst_of(of.ranks, least, how);
    return rank == nullptr ? ""
                           : text(fmt::format("rank {} on {}", rank->first, rank->second.host), rank->second.held_up);
}

}  // namespace

lateness lateness_of(const std::vector<rank_statistics>& files) {
    lateness found;
    std::map<std::string, std::vector<const rank_statistics*>> communicators;
    std::map<int, double> in_calls;
    for (const rank_statistics& f : files) {
        communicators[f.communicator].push_back(&f);
        rank_lateness& r = found.ranks[f.rank];
        r.host = f.host;
        for (const statistics::calls_of_size& c : f.counted.calls) {
            in_calls[f.rank] += c.seconds;
            lateness::calls_of_size& all = found.calls[{std::string(c.call), c.bytes_from}];
            all.calls += c.calls;
            all.seconds += c.seconds;
            all.limit += c.limit;
        }
        for (const statistics::wait& w : f.counted.waits) {
            const statistics::calls_of_size& c = f.counted.calls[static_cast<std::size_t>(w.size)];
            found.calls[{std::string(c.call), c.bytes_from}].waited += w.seconds;
            r.waited += w.seconds;
            found.stages[w.stage] += w.seconds;
        }
    }
    for (const auto& [rank, seconds] : in_calls) found.seconds = std::max(found.seconds, seconds);
    std::map<int, std::vector<double>> by_slice;  // by rank: its delays, one per slice [s]
    std::size_t slices_seen = 0;
    double longest = 0;
    for (const auto& [name, members] : communicators) {
        const slices all = slices_of(members);
        if (all.empty()) continue;
        slices_seen += all.size();
        std::map<std::int64_t, std::map<int, double>> by_part;
        const std::int64_t calls_in_part = all.rbegin()->first / most_parts + 1;
        double held_up = 0;
        for (const auto& [first, s] : all)
            for (const auto& [rank, seconds] : s.longest) {
                const auto waited = s.own.find(rank);
                const double own = std::max(0.0, seconds - (waited == s.own.end() ? 0 : waited->second));
                found.ranks[rank].held_up += own;
                by_slice[rank].push_back(own);
                by_part[(first - 1) / calls_in_part * calls_in_part + 1][rank] += own;
                held_up += own;
            }
        if (held_up < longest) continue;
        longest = held_up;
        found.parts.clear();
        for (auto& [first, ranks] : by_part) found.parts.push_back({first, std::move(ranks)});
    }
    for (auto& [rank, r] : found.ranks) {
        std::vector<double>& all = by_slice[rank];
        std::ranges::sort(all, std::greater());
        const auto often = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), slices_seen / seldom));
        r.steady = std::accumulate(often, all.end(), 0.0);
        rank_lateness& host = found.hosts[r.host];
        host.held_up += r.held_up;
        host.steady += r.steady;
        host.waited += r.waited;
    }
    return found;
}

std::string lateness::sentence() const {
    std::string text = sentence_of(*this, &rank_lateness::steady, "is late");
    if (text.empty()) text = sentence_of(*this, &rank_lateness::held_up, "was late for a while");
    return text.empty() ? "no rank stands out" : text;
}

}  // namespace terrace::detail
