#include "control/call_order/call_check.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/hash.hpp"
#include "base/partition.hpp"
#include "transport/agreement.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t remembered_shapes = 4096;

// A rank's call in words, which ranks gather where their calls differ.
struct testimony {
    std::array<char, 256> text{};
    std::uint64_t before = 0;
};

}  // namespace

call_check::call_check(control_router& router, std::vector<int> callers_rank, options::checking level,
                       std::function<void()> progress, std::function<void()> watch,
                       std::chrono::duration<double> patience)
    : control_service(router, service::call_order),
      router_(router),
      callers_rank_(std::move(callers_rank)),
      level_(level),
      progress_(std::move(progress)),
      watch_(std::move(watch)),
      patience_(patience) {}

call_check::record& call_check::count_call(std::uint64_t signature) {
    record& r = at(++calls_);
    r.number = calls_;
    r.before = history_;
    r.after = history_ = hash_of(&signature, sizeof signature, r.before);
    if (!ahead_.empty())
        for (const call_stamp& stamp : std::exchange(ahead_, {})) compare_with(stamp);
    return r;
}

bool call_check::start(const call_shape& call, std::uint64_t signature) {
    if (!compares()) return true;
    record& r = count_call(signature);
    r.call = call;
    r.words.clear();
    if (level_ == options::checking::every || (signature != last_agreed_ && !agreed_.contains(signature))) {
        open_ = {.known = {calls_, history_, history_}, .agrees_on = signature};
        return advance();
    }
    if (!heard_.empty() || knows_of_a_difference()) listen();
    last_agreed_ = signature;
    return true;
}

void call_check::begin(const call_shape& call, std::uint64_t signature) {
    if (!start(call, signature)) finish();
}

void call_check::agree_on(std::uint64_t signature) {
    if (agreed_.size() == remembered_shapes) agreed_.clear();  // on all ranks alike
    agreed_.insert(signature);
    last_agreed_ = signature;
}

void call_check::meet(const std::string& what, const std::string& detail) {
    if (!compares()) return;
    count_call(hash_of(what.data(), what.size())).words = what + detail;
    exchange({calls_, history_, history_});
}

void call_check::listen() {
    router_.take();
    // A comparison of a later call is not meant: its rank is ahead.
    const bool hears = std::ranges::any_of(heard_, [&](const heard_round& h) { return h.said.call <= calls_; });
    const bool knows = knows_of_a_difference();
    if (open_ || (!knows && !hears)) return;
    // Nobody compares what this rank has been through without comparing, so that there is a difference. Takes part with
    // what differs from anything.
    exchange({knows ? *differing_ : calls_, 0, std::numeric_limits<std::uint64_t>::max()});
}

void call_check::exchange(const hashes& known) {
    open_ = {.known = known};
    finish();
}

bool call_check::advance() {
    if (!open_) return true;
    while (open_->distance < net_.size())
        if (!finish_round()) return false;
    if (!net_.wire().settled()) return false;  // whoever waits for this rank's last message may wait for long
    const comparison over = *open_;
    open_.reset();
    awaited_ = -1;
    ++comparisons_;
    if (over.known.low != over.known.high) report(over.known.call);
    if (over.agrees_on) agree_on(*over.agrees_on);
    return true;
}

// Returns false while the message of this round has not come.
bool call_check::finish_round() {
    comparison& c = *open_;
    if (!c.told) {
        say(wrap(net_.rank() + c.distance, net_.size()), order_kind::round, {comparisons_, c.round}, c.known);
        awaited_ = wrap(net_.rank() - c.distance, net_.size());
        c.told = true;
    }
    router_.take();
    const auto found = std::find_if(heard_.begin(), heard_.end(), [&](const heard_round& h) {
        return h.comparison == comparisons_ && h.round == c.round;
    });
    if (found == heard_.end()) return false;
    c.known.call = std::min(c.known.call, found->said.call);
    c.known.low = std::min(c.known.low, found->said.low);
    c.known.high = std::max(c.known.high, found->said.high);
    heard_.erase(found);
    c.distance *= 2;
    ++c.round;
    c.told = false;
    return true;
}

void call_check::finish() {
    for (waiter w; !advance();) {
        progress_();
        check_fault(net_);
        if (!w.should_yield(false, net_.spin_limit())) continue;
        watch_();
        net_.idle();
    }
}

std::chrono::duration<double> call_check::age() noexcept {
    if (!open_) return {};
    const auto now = std::chrono::steady_clock::now();
    if (open_->since == std::chrono::steady_clock::time_point{}) open_->since = now;
    return now - open_->since;
}

void call_check::add_waits(waiting& all) {
    if (awaited_ < 0) return;
    const int peer = callers_rank_[static_cast<std::size_t>(awaited_)];
    all.ranks.insert(peer);
    all.lines.push_back(
        fmt::format("{}: rank {} has not made this call, or waits for a rank that has not; do all "
                    "ranks make the same calls?",
                    said(calls_), peer));
}

bool call_check::is_time_to_tell(std::chrono::duration<double> waited) noexcept {
    if (waited < patience_) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_telling_) return false;
    next_telling_ = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience_ / 4);
    return true;
}

// One at a time: a rank that computes for long, again and again, finds no more than one of each other rank.
void call_check::tell(const call_stamp& stamp, int rank) {
    if (stamp.number == 0 || rank == net_.rank() || told_.contains(rank)) return;
    if (std::exchange(last_told_[rank], stamp.number) == stamp.number) return;
    told_.insert(rank);
    say(rank, order_kind::stamp, {}, stamp);
}

void call_check::take(int from, const control_frame& f) {
    switch (static_cast<order_kind>(f.kind)) {
        case order_kind::round: return heard_.push_back({f.epoch, f.number, f.get<hashes>()});
        case order_kind::stamp: say(from, order_kind::stamp_read); return compare_with(f.get<call_stamp>());
        case order_kind::stamp_read: told_.erase(from); return;
        case order_kind::difference:
            const auto call = f.get<std::uint64_t>();
            differing_ = std::min(call, differing_.value_or(call));
    }
}

void call_check::compare_with(const call_stamp& stamp) {
    if (stamp.number > calls_) return ahead_.push_back(stamp);
    const record& own = at(stamp.number);
    if (own.number != stamp.number || own.after == stamp.history || differing_) return;
    differing_ = stamp.number;
    for (int peer = 0; peer < net_.size(); ++peer)
        if (peer != net_.rank()) say(peer, order_kind::difference, {}, stamp.number);
}

std::string call_check::said(std::uint64_t call) {
    const record& r = at(call);
    return fmt::format("{} (call {})", r.words.empty() ? describe(r.call) : r.words, r.number);
}

// The first call at which ranks came apart, if all still know it; else the earliest that is in question.
std::uint64_t call_check::earliest_difference(std::uint64_t call) {
    std::array<call_stamp, std::tuple_size_v<decltype(recent_)>> own{};
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = {recent_[i].number, recent_[i].after};
    std::vector<call_stamp> all(own.size() * callers_rank_.size());
    net_.ranks().gather_all(own.data(), all.data(), sizeof own);
    std::map<std::uint64_t, std::vector<std::uint64_t>> histories;  // by number of the call
    for (const call_stamp& stamp : all)
        if (stamp.number > 0) histories[stamp.number].push_back(stamp.history);
    bool all_alike_before = false;
    for (const auto& [number, known] : histories) {
        if (known.size() != callers_rank_.size()) continue;
        const bool all_alike = std::adjacent_find(known.begin(), known.end(), std::not_equal_to<>()) == known.end();
        if (!all_alike && (all_alike_before || number == 1)) return number;
        all_alike_before = all_alike;
    }
    return call;
}

// All ranks say what they made of it; who no longer knows, of a later one.
void call_check::report(std::uint64_t call) {
    call = earliest_difference(call);
    testimony mine{.before = at(call).before};
    const std::string text = said(call);
    std::copy_n(text.begin(), std::min(text.size(), mine.text.size() - 1), mine.text.begin());
    std::vector<testimony> all(callers_rank_.size());
    net_.ranks().gather_all(&mine, all.data(), sizeof mine);
    std::vector<std::string> texts(all.size()), histories(all.size());
    for (std::size_t r = 0; r < all.size(); ++r) {
        texts[static_cast<std::size_t>(callers_rank_[r])] = all[r].text.data();
        histories[static_cast<std::size_t>(callers_rank_[r])] = fmt::format("history {:016x}", all[r].before);
    }
    if (const std::string difference = differences(texts); !difference.empty())
        throw usage_error("ranks make different calls: " + difference);
    throw usage_error(
        fmt::format("{}: the calls before it differed between ranks, in shape or order, and results since "
                    "may be wrong; with options::check = every (TERRACE_CHECK=every) the first that "
                    "differs is an error at once: {}",
                    text, differences(histories)));
}

}  // namespace terrace::detail
