#include "api/call_check.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/hash.hpp"
#include "base/partition.hpp"
#include "transport/agreement.hpp"

namespace terrace::detail {

namespace {

// The words of a note.
enum : std::size_t { of_comparison, of_round, of_call, of_low, of_high };

constexpr std::size_t remembered_shapes = 4096;

// A rank's call in words, which ranks gather where their calls differ.
struct testimony {
    std::array<char, 256> text{};
    std::uint64_t before = 0;
};

}  // namespace

call_check::call_check(endpoint& net, std::vector<int> callers_rank, wait_chain& chain, options::checking level,
                       std::function<void()> progress, std::function<void()> watch)
    : net_(net),
      callers_rank_(std::move(callers_rank)),
      chain_(chain),
      level_(level),
      progress_(std::move(progress)),
      watch_(std::move(watch)) {}

call_check::record& call_check::count_call(std::uint64_t signature) noexcept {
    record& r = at(++calls_);
    r.number = calls_;
    r.before = history_;
    history_ = hash_of(&signature, sizeof signature, r.before);
    return r;
}

void call_check::begin(const call_shape& call, std::uint64_t signature) {
    if (!compares()) return;
    record& r = count_call(signature);
    r.call = call;
    r.words.clear();
    if (level_ == options::checking::every || (signature != last_agreed_ && !agreed_.contains(signature))) {
        exchange(history_, history_);
        if (agreed_.size() == remembered_shapes) agreed_.clear();  // on all ranks alike
        agreed_.insert(signature);
    } else if (!heard_.empty()) {
        listen();
    }
    last_agreed_ = signature;
}

void call_check::meet(const std::string& what, const std::string& detail) {
    if (!compares()) return;
    count_call(hash_of(what.data(), what.size())).words = what + detail;
    exchange(history_, history_);
}

void call_check::listen() {
    take_notes();
    if (!hears_of_a_comparison()) return;
    // Nobody compares what this rank has been through without comparing, so that there is a difference. Takes part with
    // what differs from anything.
    exchange(0, std::numeric_limits<std::uint64_t>::max());
}

// A comparison of a later call is not meant: its rank is ahead.
bool call_check::hears_of_a_comparison() const noexcept {
    return std::any_of(heard_.begin(), heard_.end(), [&](const note& n) { return n.words[of_call] <= calls_; });
}

void call_check::exchange(std::uint64_t low, std::uint64_t high) {
    std::uint64_t call = calls_, round = 0;
    since_ = std::chrono::steady_clock::now();
    for (int distance = 1; distance < net_.size(); distance *= 2, ++round) {
        net_.wire().send_note(wrap(net_.rank() + distance, net_.size()), {0, {comparisons_, round, call, low, high}});
        awaited_ = wrap(net_.rank() - distance, net_.size());
        const note n = wait_for_round(round);
        call = std::min(call, n.words[of_call]);
        low = std::min(low, n.words[of_low]);
        high = std::max(high, n.words[of_high]);
    }
    await([&] { return net_.wire().settled(); });  // whoever waits for this rank's last note may wait for long
    awaited_ = -1;
    ++comparisons_;
    if (low != high) report(call);
}

note call_check::wait_for_round(std::uint64_t round) {
    auto found = heard_.end();
    await([&] {
        take_notes();
        found = std::find_if(heard_.begin(), heard_.end(), [&](const note& n) {
            return n.words[of_comparison] == comparisons_ && n.words[of_round] == round;
        });
        return found != heard_.end();
    });
    const note n = *found;
    heard_.erase(found);
    return n;
}

template <class Done>
void call_check::await(Done done) {
    for (waiter w; !done();) {
        progress_();
        check_fault(net_);
        if (!w.should_yield(false, net_.spin_limit())) continue;
        watch_();
        net_.idle();
    }
}

std::chrono::duration<double> call_check::age() const noexcept {
    if (awaited_ < 0) return {};
    return std::chrono::steady_clock::now() - since_;
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

void call_check::take_notes() {
    while (const std::optional<note> n = net_.wire().take_note())
        if (!chain_.take(*n)) heard_.push_back(*n);
}

std::string call_check::said(std::uint64_t call) {
    const record& r = at(call);
    return fmt::format("{} (call {})", r.words.empty() ? describe(r.call) : r.words, r.number);
}

// All ranks say what they made of the earliest call that is in question; who no longer knows, of a later one.
void call_check::report(std::uint64_t call) {
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
