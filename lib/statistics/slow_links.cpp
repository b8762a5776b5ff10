#include "statistics/slow_links.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

constexpr std::uint32_t until_known = 3;     // windows until the records of all ranks have arrived
constexpr std::size_t kept = 8, enough = 6;  // windows: 2 s, and how many of them must show a rate
constexpr std::uint32_t recent = 7;          // windows that show the present rate of a link
constexpr std::uint32_t most_apart = 12;     // windows over which `enough` may be spread
constexpr double least_span = 1e-3;          // [s]: clocks usually differ by less
constexpr double long_span = 4e-3;           // [s]: differences of clocks matter little
constexpr double shown = 0.8;                // quantile of the rates in windows that counts as the rate of a link
constexpr double is_slow = 0.8;              // a link below this part of its earlier rate is slow
constexpr std::size_t most_calls = 16;       // kinds of calls that are kept
constexpr std::size_t most_before = 240;     // windows that are kept: a minute

double seconds_at(std::uint32_t window) {
    return std::chrono::duration<double>(message_times::window).count() * window;
}

// Returns the middle between a part and 1.
double half_way(double part) { return (1 + part) / 2; }

// Returns the value below which this part of all values lies.
double quantile(std::vector<double> all, double part) {
    const auto nth = all.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(all.size()));
    std::ranges::nth_element(all, nth);
    return *nth;
}

struct carried {
    double rate = 0, sure = 0;  // [B/s]: over a span of at least `least`, of at least long_span
};

// Returns the highest rates: bytes that began and were complete within some time, over that time.
// @param least shortest time that counts [s]   @param burst bytes to subtract, since they may be faster
carried most_carried(auto messages, double least, double burst) {
    std::ranges::sort(messages, {}, [](const auto& m) { return m.ended; });
    carried most;
    for (const auto& first : messages) {
        double bytes = 0;
        for (const auto& m : messages) {
            if (m.begun < first.begun) continue;
            bytes += m.bytes;
            const double span = m.ended - first.begun;
            most.rate = std::max(most.rate, (bytes - burst) / std::max(least, span));
            most.sure = std::max(most.sure, (bytes - burst) / std::max(long_span, span));
        }
    }
    return most;
}

}  // namespace

void slow_links::add(std::uint32_t window, int from, int to, bool sends, const message_sample& s) {
    if (window < judged_) return;
    numbered& ends = sends ? pairs_[{from, to}].begun : windows_[window][{from, to}];
    for (std::size_t i = 0; i < s.count; ++i)
        ends[s.first + static_cast<std::uint32_t>(i)] = {seconds_at(window) + s.time(i), s.bytes(i), s.calls};
}

slow_links::crossing slow_links::messages_of(pair_times& p, const numbered& ended, double rate) {
    crossing all;
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& [number, end] : ended) {
        const auto begin = p.begun.find(number);
        if (begin == p.begun.end() || begin->second.bytes != end.bytes) continue;
        all.messages.push_back({begin->second.time, end.time, end.bytes});
        shortest = std::min(shortest, end.time - begin->second.time - end.bytes / rate);
    }
    if (!all.messages.empty()) p.shortest.push_back(shortest);
    if (p.shortest.size() > most_before) p.shortest.pop_front();
    if (!p.shortest.empty()) all.burst = std::max(0.0, -std::ranges::min(p.shortest)) * rate;
    return all;
}

void slow_links::measure(std::uint32_t window, const flows& seen) {
    std::vector<crossing> through(links_.size());
    std::set<int> calls;
    for (const auto& [ranks, ended] : seen) {
        const std::vector<int> path = path_(ranks.first, ranks.second);
        if (path.empty()) continue;
        const auto rate_of = [&](int link) { return links_[at(link)].rate; };
        const double rate = rate_of(std::ranges::min(path, {}, rate_of));
        const auto& [all, burst] = messages_of(pairs_[ranks], ended, rate);
        for (const int link : path) {
            crossing& c = through[at(link)];
            c.messages.insert(c.messages.end(), all.begin(), all.end());
            c.burst = std::max(c.burst, burst);
        }
        for (const auto& [number, end] : ended) calls.insert(end.calls);
    }
    const double oldest = seconds_at(window) - seconds_at(most_apart);
    for (auto& [ranks, p] : pairs_) std::erase_if(p.begun, [&](const auto& b) { return b.second.time < oldest; });
    calls_ = calls.size() == 1 ? *calls.begin() : -1;
    for (std::size_t l = 0; l < links_.size(); ++l) {
        history& h = past()[l];
        if (const auto& [all, burst] = through[l]; !all.empty()) {
            const auto [rate, sure] = most_carried(all, least_span, burst);
            h.last.emplace_back(window, measured{std::min(links_[l].rate, rate), sure, all});
        }
        while (h.last.size() > kept || (!h.last.empty() && h.last.front().first + most_apart * every_ < window)) {
            if (slow_.empty()) h.before.push_back(h.last.front().second.rate);
            h.last.pop_front();
        }
        if (h.before.size() > most_before) h.before.pop_front();
        if (h.before.size() >= kept) h.usual = quantile({h.before.begin(), h.before.end()}, shown);
    }
}

std::vector<slow_links::history>& slow_links::past() {
    if (past_.size() >= most_calls && !past_.contains(calls_)) past_.clear();
    return past_.try_emplace(calls_, links_.size()).first->second;
}

std::vector<slow_links::finding> slow_links::judge(std::uint32_t now) {
    std::vector<finding> found;
    while (!windows_.empty() && windows_.begin()->first + until_known <= now) {
        const auto& [window, seen] = *windows_.begin();
        measure(window, seen);
        end_slow(found);
        if (std::optional<finding> f = compare(window)) found.push_back(slow_.emplace_back(std::move(*f)));
        judged_ = window + 1;
        windows_.erase(windows_.begin());
    }
    return found;
}

void slow_links::end_slow(std::vector<finding>& found) {
    std::erase_if(slow_, [&](const finding& f) {
        if (!is_back(f)) return false;
        found.push_back(f);
        found.back().is_slow = false;
        return true;
    });
    if (!found.empty()) forget();  // windows in which the link was slow
}

// Several windows must agree, since a single message may show too high a rate.
bool slow_links::is_back(const finding& f) {
    const double least = half_way(f.rate / f.before);
    return show(f, least, &measured::sure, 2) || show(f, least, &measured::rate, enough);
}

bool slow_links::may_be_back() {
    return std::ranges::any_of(slow_, [this](const finding& f) {
        const double part = f.rate / f.before;
        return show(f, (part + half_way(part)) / 2, &measured::rate, 2);
    });
}

// Returns true if at least `windows` windows show this part of the rate before, in the better direction.
bool slow_links::show(const finding& f, double part, double measured::*rate, std::size_t windows) {
    const int link = f.links.front();
    return std::ranges::any_of(std::array{link, links_[at(link)].back}, [&](int l) {
        const history& h = of(l);
        const double least = part * (h.usual > 0 ? h.usual : f.before);
        return at(std::ranges::count_if(h.last, [&](const auto& w) { return w.second.*rate >= least; })) >= windows;
    });
}

// Returns the present rate of a slow link in its better direction [B/s]. With many messages, few are in flight when the
// measured time begins and ends. In a long span, few messages are from before the link was slow.
double slow_links::rate_now(int link) {
    double rate = 0;
    for (const int l : {link, links_[at(link)].back}) {
        std::vector<message> all;
        for (const auto& [window, m] : of(l).last)
            if (window + recent * every_ > of(l).last.back().first)
                all.insert(all.end(), m.messages.begin(), m.messages.end());
        rate = std::max(rate, most_carried(std::move(all), seconds_at(recent - 2), 0).rate);
    }
    return rate;
}

// Returns true if two links carry the same messages. Then it is unknown which of them is slow.
bool slow_links::carry_the_same(int a, int b) {
    const auto same = [&](int x, int y) { return of(x).last == of(y).last; };
    const int a_back = links_[at(a)].back, b_back = links_[at(b)].back;
    return (same(a, b) && same(a_back, b_back)) || (same(a, b_back) && same(a_back, b));
}

// Returns nothing if the link cannot be judged, as without recent messages.
std::optional<slow_links::judgement> slow_links::judge_link(int link, std::uint32_t window) {
    judgement j{.link = link};
    for (const int l : {link, links_[at(link)].back}) {
        const history& h = of(l);
        if (h.last.size() < enough || h.usual <= 0 || h.last.back().first + every_ < window) return {};
        std::vector<double> rates;
        for (const auto& each : h.last) rates.push_back(each.second.rate);
        j.part = std::max(j.part, quantile(std::move(rates), shown) / h.usual);
    }
    return j;
}

// Returns the slow link: one that is far below all others that do not carry the same messages.
std::optional<slow_links::finding> slow_links::compare(std::uint32_t window) {
    if (!slow_.empty()) return {};  // the slow link may slow down others
    std::map<int, std::vector<judgement>> kinds;
    std::set<int> unknown;  // kinds with a link that cannot be judged
    for (int link = 0; link < static_cast<int>(links_.size()); ++link) {
        const auto& [kind, back, rate] = links_[at(link)];
        if (back < link || of(link).usual <= 0) continue;
        if (const std::optional<judgement> j = judge_link(link, window)) kinds[kind].push_back(*j);
        else unknown.insert(kind);
    }
    std::vector<judgement> all;
    for (const auto& [kind, judged] : kinds)
        if (judged.size() >= 3 && !unknown.contains(kind)) all.insert(all.end(), judged.begin(), judged.end());
    if (all.empty()) return {};
    const judgement one = std::ranges::min(all, {}, &judgement::part);
    const history& h = of(one.link);
    if (one.part >= is_slow || h.last.front().first + (kept - 1) * every_ > window) return {};
    finding f{{}, rate_now(one.link), h.usual, h.last.front().first, true};
    for (const judgement& j : all) {
        if (j.part >= half_way(one.part)) continue;
        if (!carry_the_same(one.link, j.link)) return {};
        f.links.push_back(j.link);
    }
    return f;
}

}  // namespace terrace::detail
