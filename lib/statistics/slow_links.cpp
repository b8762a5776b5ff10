#include "statistics/slow_links.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

constexpr std::uint32_t until_known = 3;     // windows until the ranks have said what they noted
constexpr std::size_t kept = 8, enough = 6;  // windows: 2 s, and how many of them must say something
constexpr std::uint32_t most_apart = 12;     // windows that `enough` may be spread over
constexpr std::size_t least_complete = 3;    // messages in a window
constexpr double is_slow = 0.85;             // of what it carried, and of what others still carry
constexpr double is_back = 0.5;              // of the way back to what it carried
constexpr double is_busy = 0.8;              // of the time
constexpr double is_bunch = 1.25;            // of what it carried
constexpr double is_apart = 0.25;            // directions of a slow link
constexpr std::size_t most_calls = 16;       // kinds of calls
constexpr std::size_t most_before = 240;     // windows: a minute

double middle(std::vector<double> all) {
    std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    return all[all.size() / 2];
}

template <class Of>
std::vector<double> each_of(const slow_links::history& h, Of what) {
    std::vector<double> all;
    for (const auto& [window, m] : h.last) all.push_back(m.*what);
    return all;
}

// An end of messages on a link: they begin or are complete.
struct change {
    double time = 0;
    int begun = 0;  // 1, or -1: complete
    double bytes = 0;
};

}  // namespace

void slow_links::add(std::uint32_t window, int from, int to, bool sends, const message_sample& s) {
    if (!windows_.empty() && window < windows_.begin()->first) return;  // too late
    flow& f = windows_[window][{from, to}];
    (sends ? f.sent : f.received) = s;
}

// Some message of a minute found its links free.
void slow_links::learn(pair_times& t, const flow& f, double rate) const {
    const message_sample &s = *f.sent, &r = *f.received;
    double shortest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < s.count; ++i)
        if (const std::size_t j = s.before + i - r.before; j < r.count)
            shortest = std::min(shortest, r.time(j) - s.time(i));
    if (!std::isfinite(shortest)) return;
    t.shortest.push_back(shortest);
    if (t.shortest.size() > most_before) t.shortest.pop_front();
    t.off = std::ranges::min(t.shortest) - 64.0 * s.length / rate;
}

// From one message that is complete to the next one time passes while any are under way.
std::optional<slow_links::measured> slow_links::measure(
    const std::vector<std::pair<const flow*, double>>& through) const {
    double end = std::chrono::duration<double>(message_times::window).count();
    int under_way = 0;
    std::vector<change> all;
    for (const auto& [f, off] : through) {
        if (!f->sent || !f->received) return {};
        under_way += static_cast<int>(f->sent->before - f->received->before);
        for (const auto& [s, begun] : {std::pair(&*f->sent, 1), std::pair(&*f->received, -1)}) {
            const double later = begun > 0 ? off : 0;
            for (std::size_t i = 0; i < s->count; ++i) all.push_back({s->time(i) + later, begun, 64.0 * s->length});
            if (s->is_full()) end = std::min(end, s->time(message_sample::most - 1) + later);
        }
    }
    std::ranges::sort(all, {}, [](const change& c) { return std::pair(c.time, -c.begun); });
    double bytes = 0, busy = 0, first = -1, last = 0, since = 0;
    std::vector<double> took;
    for (const change& c : all) {
        if (c.time > end) break;
        if (c.begun > 0 && under_way <= 0) since = c.time;
        under_way += c.begun;
        if (c.begun > 0) continue;
        if (first < 0) first = c.time;
        else bytes += c.bytes, busy += took.emplace_back(std::max(0.0, c.time - std::max(since, last)));
        last = c.time;
        if (under_way <= 0) since = end;
    }
    if (took.size() < least_complete || busy <= 0) return {};
    std::ranges::sort(took);
    took.resize(took.size() / 2);
    const double soonest = std::max(1e-9, std::reduce(took.begin(), took.end()));
    return measured{bytes / busy, busy / (last - first), bytes / 2 / soonest};
}

void slow_links::measure_all(std::uint32_t window, const flows& seen) {
    std::vector<std::vector<std::pair<const flow*, double>>> through(links_.size());
    std::set<int> calls;
    for (const auto& [ranks, f] : seen) {
        const std::vector<int> path = path_(ranks.first, ranks.second);
        if (path.empty()) continue;
        pair_times& times = pairs_[ranks];
        const auto rate_of = [&](int link) { return links_[at(link)].rate; };
        if (f.sent && f.received && slow_.empty()) learn(times, f, rate_of(std::ranges::min(path, {}, rate_of)));
        for (const int link : path) through[at(link)].emplace_back(&f, times.off);
        if (f.sent) calls.insert(f.sent->calls);
    }
    calls_ = calls.size() == 1 ? *calls.begin() : -1;
    for (std::size_t l = 0; l < links_.size(); ++l) {
        history& h = past()[l];
        if (through[l].empty()) continue;
        if (const std::optional<measured> m = measure(through[l])) h.last.emplace_back(window, *m);
        while (h.last.size() > kept || (!h.last.empty() && h.last.front().first + most_apart * every_ < window)) {
            if (slow_.empty()) h.before.push_back(h.last.front().second.rate);
            h.last.pop_front();
        }
        if (h.before.size() > most_before) h.before.pop_front();
        if (h.before.size() >= kept) h.usual = middle({h.before.begin(), h.before.end()});
    }
}

std::vector<slow_links::history>& slow_links::past() {
    if (past_.size() >= most_calls && !past_.contains(calls_)) past_.clear();
    return past_.try_emplace(calls_, links_.size()).first->second;
}

void slow_links::forget() {
    for (auto& [calls, links] : past_)
        for (history& h : links) h.last.clear();
}

// Nothing where it is not judged.
std::optional<double> slow_links::part_of_usual(int link) {
    const history& h = of(link);
    if (h.last.size() < enough || h.usual <= 0) return {};
    std::vector<double> rates = each_of(h, &measured::rate);
    std::ranges::nth_element(rates, rates.end() - 2);
    return *(rates.end() - 2) / h.usual;  // all but one are at most this
}

std::vector<slow_links::finding> slow_links::judge(std::uint32_t now) {
    std::vector<finding> found;
    while (!windows_.empty() && windows_.begin()->first + until_known <= now) {
        const auto& [window, seen] = *windows_.begin();
        measure_all(window, seen);
        end_slow(found);
        std::ranges::move(compare(window), std::back_inserter(found));
        windows_.erase(windows_.begin());
    }
    return found;
}

void slow_links::end_slow(std::vector<finding>& found) {
    std::erase_if(slow_, [&](const finding& f) {
        for (const int link : {f.links.front(), links_[at(f.links.front())].back}) {
            const history& h = of(link);
            if (h.last.size() < kept / 2) return false;
            std::vector<double> rates = each_of(h, &measured::rate);
            rates.erase(rates.begin(), rates.end() - kept / 2);
            if (middle(rates) < f.rate + is_back * (f.before - f.rate)) return false;
        }
        found.push_back(f);
        found.back().rate = f.before;
        found.back().is_slow = false;
        return true;
    });
}

// True if two links carry the same messages, so that nobody can tell which of them is slow.
bool slow_links::carry_the_same(int a, int b) {
    const auto same = [&](int x, int y) { return of(x).last == of(y).last; };
    const int a_back = links_[at(a)].back, b_back = links_[at(b)].back;
    return (same(a, b) && same(a_back, b_back)) || (same(a, b_back) && same(a_back, b));
}

// Nothing where it is not judged. Links whose messages have not been seen lately are not.
std::optional<slow_links::judgement> slow_links::judge_link(int link, std::uint32_t window) {
    judgement j{.link = link, .waits = true};
    double least = 1;
    for (const int l : {link, links_[at(link)].back}) {
        const history& h = of(l);
        const std::optional<double> part = part_of_usual(l);
        if (!part || h.last.back().first + every_ < window) return {};
        const double half = middle(each_of(h, &measured::rate)) / h.usual;
        j.part = std::max(j.part, *part);
        least = std::min(least, half);
        j.waits &= half < is_slow && middle(each_of(h, &measured::busy)) >= is_busy;
        j.is_even &= middle(each_of(h, &measured::quick)) < is_bunch * h.usual;
    }
    j.is_even &= j.part < least + is_apart;
    return j;
}

// A link that is slow makes others wait for others, and not for themselves.
std::vector<slow_links::finding> slow_links::compare(std::uint32_t window) {
    if (!slow_.empty()) return {};  // others may be slow through it
    std::map<int, std::vector<judgement>> kinds;
    std::set<int> unknown;  // kinds of which a link is not judged
    for (int link = 0; link < static_cast<int>(links_.size()); ++link) {
        const auto& [kind, back, rate] = links_[at(link)];
        if (back < link || of(link).usual <= 0) continue;
        if (const std::optional<judgement> j = judge_link(link, window)) kinds[kind].push_back(*j);
        else unknown.insert(kind);
    }
    std::vector<judgement> slow;
    for (const auto& [kind, all] : kinds) {
        if (all.size() < 3 || unknown.contains(kind)) continue;
        for (const judgement& j : all)
            if (j.waits) slow.push_back(j);
    }
    if (slow.empty()) return {};
    const int one = slow.front().link;
    const history& h = of(one);
    if (h.last.front().first + (kept - 1) * every_ > window) return {};
    finding f{{}, middle(each_of(h, &measured::rate)), h.usual, h.last.front().first, true};
    for (const judgement& j : slow) {
        if (j.part >= is_slow || !j.is_even || !carry_the_same(one, j.link)) return {};
        f.links.push_back(j.link);
    }
    slow_.push_back(f);
    return {f};
}

}  // namespace terrace::detail
