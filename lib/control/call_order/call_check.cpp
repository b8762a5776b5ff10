#include "control/call_order/call_check.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/hash.hpp"
#include "base/partition.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

namespace {

// Description of a rank's call. Ranks gather these if their calls differ.
struct testimony {
    std::array<char, 256> text{};
    std::uint64_t before = 0;
};

// Returns how long a call waits before its rank sends the call's stamp.
std::chrono::duration<double> patience_of(const options& o) {
    const std::chrono::duration<double> usual(1);
    return o.timeout.count() > 0 ? std::min(usual, std::chrono::duration<double>(o.timeout / 100)) : usual;
}

}  // namespace

call_history::record& call_history::add(std::uint64_t signature) {
    record& r = recent_[++calls_ & (remembered - 1)];
    r.number = calls_;
    r.before = hash_;
    r.after = hash_ = hash_of(&signature, sizeof signature, r.before);
    return r;
}

std::string call_history::text_of(std::uint64_t call) const {
    const record& r = at(call);
    return fmt::format("{} (call {})", r.words.empty() ? describe(r.call) : r.words, r.number);
}

std::uint64_t earliest_difference(const std::vector<call_stamp>& all, std::size_t ranks, std::uint64_t otherwise) {
    std::map<std::uint64_t, std::vector<std::uint64_t>> histories;  // by number of the call
    for (const call_stamp& stamp : all)
        if (stamp.number > 0) histories[stamp.number].push_back(stamp.history);
    bool all_alike_before = false;
    for (const auto& [number, known] : histories) {
        if (known.size() != ranks) continue;
        const bool all_alike = std::adjacent_find(known.begin(), known.end(), std::not_equal_to<>()) == known.end();
        if (!all_alike && (all_alike_before || number == 1)) return number;
        all_alike_before = all_alike;
    }
    return otherwise;
}

// ---- comparing

call_check::call_check(control_router& router, const std::vector<int>& callers_rank, const options& o,
                       std::function<void()> progress, std::function<void()> watch)
    : control_service(router, service::call_order),
      router_(router),
      callers_rank_(callers_rank),
      level_(o.check),
      progress_(std::move(progress)),
      watch_(std::move(watch)),
      stamps_(patience_of(o)) {}

void call_check::agreed_calls::add(std::uint64_t signature) {
    constexpr std::size_t remembered_shapes = 4096;
    if (all.size() == remembered_shapes) all.clear();  // at the same call on all ranks
    all.insert(signature);
    last = signature;
}

call_history::record& call_check::count_call(std::uint64_t signature) {
    call_history::record& r = history_.add(signature);
    if (!differing_.ahead.empty())
        for (const call_stamp& stamp : std::exchange(differing_.ahead, {})) compare_with(stamp);
    return r;
}

bool call_check::start(const call_shape& call, std::uint64_t signature) {
    if (!compares()) return true;
    call_history::record& r = count_call(signature);
    r.call = call;
    r.words.clear();
    if (level_ == options::checking::every || !agreed_.contains(signature)) {
        comparisons_.open = {.known = {r.number, r.after, r.after}, .agrees_on = signature};
        return advance();
    }
    if (!comparisons_.received.empty() || knows_of_a_difference()) listen();
    agreed_.last = signature;
    return true;
}

void call_check::meet(const std::string& what, const std::string& detail) {
    if (!compares()) return;
    call_history::record& r = count_call(hash_of(what.data(), what.size()));
    r.words = what + detail;
    exchange({r.number, r.after, r.after});
}

void call_check::listen() {
    router_.receive();
    // Comparisons of later calls do not count: the ranks that began them are ahead.
    const bool hears = std::ranges::any_of(comparisons_.received,
                                           [&](const received_round& h) { return h.known.call <= history_.calls(); });
    const bool knows = knows_of_a_difference();
    if (comparisons_.open || (!knows && !hears)) return;
    // Ranks that made the same calls as this rank would not compare now, so there is a difference. This rank takes part
    // with hashes that differ from any other.
    exchange({knows ? *differing_.call : history_.calls(), 0, std::numeric_limits<std::uint64_t>::max()});
}

bool call_check::advance() {
    std::optional<comparison>& open = comparisons_.open;
    if (!open) return true;
    while ((1 << open->round) < net_.size())
        if (!finish_round()) return false;
    if (!net_.wire().settled()) return false;  // another rank may wait for the last message of this rank
    const comparison over = *std::exchange(open, {});
    ++comparisons_.finished;
    if (over.known.low != over.known.high) report(over.known.call);
    if (over.agrees_on) agreed_.add(*over.agrees_on);
    return true;
}

// Sends and receives the messages of this round. Returns false while the other rank's message has not arrived.
bool call_check::finish_round() {
    comparison& c = *comparisons_.open;
    const int next = wrap(net_.rank() + (1 << c.round), net_.size());
    if (!std::exchange(c.sent, true)) send_control(next, order_kind::round, {comparisons_.finished, c.round}, c.known);
    router_.receive();
    std::vector<received_round>& received = comparisons_.received;
    const auto found = std::ranges::find_if(
        received, [&](const received_round& h) { return h.comparison == comparisons_.finished && h.round == c.round; });
    if (found == received.end()) return false;
    c.known.call = std::min(c.known.call, found->known.call);
    c.known.low = std::min(c.known.low, found->known.low);
    c.known.high = std::max(c.known.high, found->known.high);
    received.erase(found);
    ++c.round;
    c.sent = false;
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

void call_check::add_waits(waiting& all) {
    if (!comparisons_.open) return;
    const auto& [known, round, sent, agrees_on, since] = *comparisons_.open;
    const int distance = (1 << round) / (sent ? 1 : 2);  // to the rank whose message came last or comes next
    if (distance == 0) return;
    const int awaited = wrap(net_.rank() - distance, net_.size());
    const int peer = callers_rank_[static_cast<std::size_t>(awaited)];
    all.add(peer, fmt::format("{}: rank {} has not made this call, or waits for a rank that has not; do all ranks make "
                              "the same calls?",
                              history_.text_of(history_.calls()), peer));
}

void call_check::receive(int from, const control_frame& f) {
    switch (static_cast<order_kind>(f.kind)) {
        case order_kind::round: return comparisons_.received.push_back({f.epoch, f.number, f.get<hashes>()});
        case order_kind::stamp: send_control(from, order_kind::stamp_read); return compare_with(f.get<call_stamp>());
        case order_kind::stamp_read: return stamps_.read_by(from);
        case order_kind::difference:
            const auto call = f.get<std::uint64_t>();
            differing_.call = std::min(call, differing_.call.value_or(call));
    }
}

void call_check::compare_with(const call_stamp& stamp) {
    if (stamp.number > history_.calls()) return differing_.ahead.push_back(stamp);
    const call_history::record& own = history_.at(stamp.number);
    if (own.number != stamp.number || own.after == stamp.history || differing_.call) return;
    differing_.call = stamp.number;
    for (int peer = 0; peer < net_.size(); ++peer)
        if (peer != net_.rank()) send_control(peer, order_kind::difference, {}, stamp.number);
}

// Gathers the call on all ranks; if a rank no longer remembers it, a later one. @throws usage_error
void call_check::report(std::uint64_t call) {
    const auto own = history_.stamps();
    std::vector<call_stamp> stamps(own.size() * callers_rank_.size());
    net_.ranks().gather_all(own.data(), stamps.data(), sizeof own);
    call = earliest_difference(stamps, callers_rank_.size(), call);
    testimony mine{.before = history_.at(call).before};
    const std::string text = history_.text_of(call);
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
