#include "control/membership/failure_agreement.hpp"

#include <algorithm>
#include <tuple>

#include "base/hash.hpp"

namespace terrace::detail {

namespace {

std::uint64_t add_to_hash(std::uint64_t hash, const testimony_of_failure& t) noexcept {
    const std::array words{t.rank, t.by, static_cast<int>(t.shows)};
    return hash ^ hash_of(words.data(), sizeof words);
}

// A fact; in a verdict also the number of its facts and their hash. In an empty verdict, the fact means nothing.
struct statement {
    int rank = 0, by = 0;
    std::uint32_t shows = 0, all = 0;
    std::uint64_t hash = 0;
};

statement statement_of(const testimony_of_failure& t, std::uint32_t all = 0, std::uint64_t hash = 0) noexcept {
    return {t.rank, t.by, static_cast<std::uint32_t>(t.shows), all, hash};
}

// Distance to the receiver of a step: 1, 2 and 3 ranks ahead in the first wave, 4, 8 and 12 in the next, and so on.
constexpr int steps_in_wave = 3;
constexpr int distance_of(int step) { return (step % steps_in_wave + 1) << 2 * (step / steps_in_wave); }

// Returns the bits of all steps before a step.
constexpr std::uint64_t before(int step) { return (std::uint64_t{1} << step) - 1; }

int steps_around(const rank_ring& ring) {
    int steps = 0;
    while (distance_of(steps) < ring.size()) ++steps;
    return steps;
}

// Beats in the patience. After each beat, a silent contact is passed over, and new arrivals are reported.
constexpr double beats = 32;

}  // namespace

// ---- facts

failed_ranks judge(const std::set<testimony_of_failure>& known, const std::vector<int>& lines) {
    failed_ranks failed;
    std::vector<testimony_of_failure> pairs;
    std::map<int, std::set<int>> in_reach;
    for (const testimony_of_failure& t : known) {
        if (t.shows == evidence::acknowledged) {
            in_reach[t.rank].insert(t.by);
            in_reach[t.by].insert(t.rank);
        } else if (is_of_a_pair(t.shows)) {
            pairs.push_back(t);
        } else {
            const auto [found, is_new] = failed.emplace(t.rank, t.shows);
            if (!is_new) found->second = std::min(found->second, t.shows);
        }
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
        const auto worst = std::ranges::max_element(out_of_reach, {}, blame);
        failed.emplace(worst->first, surest[worst->first]);
    }
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

// ---- agreeing

failure_agreement::failure_agreement(control_router& router, std::chrono::duration<double> patience,
                                     std::vector<int> lines)
    : control_service(router, service::membership), patience_(patience), lines_(std::move(lines)) {
    // Allocates memory here, since a call that only waits must not allocate.
    weigh();
    round(epoch_);
}

// Adopts no verdict directly from a failed rank, since the others may have another verdict, without it.
void failure_agreement::receive(int from, const control_frame& f) {
    const auto [rank, by, shows, all, hash] = f.get<statement>();
    const testimony_of_failure one{rank, by, static_cast<evidence>(shows)};
    const auto kind = static_cast<membership_kind>(f.kind);
    if (kind == membership_kind::knows || (kind == membership_kind::decided && all > 0)) knowledge_.add(one);
    if (static_cast<std::int16_t>(f.epoch - epoch_) < -1) return;  // all ranks have left this round
    round_state& r = round(f.epoch);
    if (r.final && kind == membership_kind::knows && !r.informed.contains(from)) send_verdict(from, f.epoch);
    r.come.insert(from);
    if (kind == membership_kind::come && f.number < r.come.size()) r.come.insert(f.number, f.get<rank_set::block>());
    if (kind == membership_kind::step && f.number < 64)
        r.steps[f.get<std::uint64_t>()].come |= std::uint64_t{1} << f.number;
    if (kind != membership_kind::decided || weighed_.failed.contains(from)) return;
    testimonies& coming = r.coming[hash];
    if (all > 0) coming.insert(one);
    if (coming.size() == all && !r.decided) r.decided = hash;
}

void failure_agreement::weigh() {
    weighed_.failed = judge(knowledge_.all(), lines_);
    std::vector<int> not_dead, live;
    for (int r = 0; r < net_.size(); ++r) {
        const auto failed = weighed_.failed.find(r);
        if (failed == weighed_.failed.end()) live.push_back(r);
        if (failed == weighed_.failed.end() || r == net_.rank() || row_of(failed->second).of != failure::died)
            not_dead.push_back(r);
    }
    weighed_.not_dead = rank_ring(std::move(not_dead), net_.rank());
    weighed_.live = rank_ring(std::move(live), net_.rank());
    weighed_.facts = knowledge_.facts().size();
}

// Returns ranks 1, 2, 4 ... ahead and behind. While the nearest are silent, adds one more each way per beat.
std::vector<int> failure_agreement::contacts() {
    const auto waited = now().began ? clock::now() - *now().began : clock::duration();
    int reach = 1;
    while (reach < weighed_.not_dead.log() && waited > patience_ / beats * reach) ++reach;
    std::set<int> ranks;
    for (const int way : {1, -1}) {
        for (int d = 1; d <= weighed_.not_dead.size() / 2; d *= 2) ranks.insert(weighed_.not_dead.at_distance(way * d));
        for (int d = 2; d <= reach && !has_come(weighed_.not_dead.at_distance(way * (d - 1))); ++d)
            ranks.insert(weighed_.not_dead.at_distance(way * d));
    }
    ranks.erase(net_.rank());
    return {ranks.begin(), ranks.end()};
}

bool failure_agreement::advance(bool all_come) {
    if (weighed_.facts != knowledge_.facts().size()) weigh();
    if (now().final) return true;
    if (knowledge_.all().empty() && !all_come) return false;
    // A rank that adopts a verdict must not send new facts first.
    if (now().decided) {
        decide(now().coming[*now().decided]);
    } else {
        send_news(all_come);
        if (is_agreed(all_come)) decide(knowledge_.all());
    }
    return now().final.has_value();
}

void failure_agreement::send_news(bool all_come) {
    rank_set& come = now().come;
    come.insert(net_.rank());
    if (!now().began) now().began = clock::now();
    const std::size_t block = rank_set::block_of(net_.rank());
    const std::vector<int> whom = contacts();
    for (const int peer : whom) {
        contact& c = contacts_[peer];
        if (!std::exchange(c.greeted, true))
            send_control(peer, membership_kind::come, {epoch_, static_cast<std::uint32_t>(block)}, come[block]);
        for (; c.sent < knowledge_.facts().size(); ++c.sent)
            send_control(peer, membership_kind::knows, {.epoch = epoch_}, statement_of(knowledge_.facts()[c.sent]));
    }
    send_steps();
    if (all_come) send_arrivals(whom);
}

// A step means: this rank, and the ranks behind it that earlier waves lead to, know the same facts.
void failure_agreement::send_steps() {
    if (weighed_.failed.contains(net_.rank())) return;
    step_bits& steps = now().steps[knowledge_.hash()];
    const auto may_send = [&](int step) { return (~steps.come & before(step - step % steps_in_wave)) == 0; };
    for (int& s = steps.sent; s < steps_around(weighed_.live) && may_send(s); ++s)
        send_control(weighed_.live.at_distance(distance_of(s)), membership_kind::step,
                     {epoch_, static_cast<std::uint32_t>(s)}, knowledge_.hash());
}

// Sends which ranks take part, so each rank can name all that are missing.
void failure_agreement::send_arrivals(const std::vector<int>& whom) {
    round_state& r = now();
    const auto beat = std::chrono::duration_cast<clock::duration>(patience_ / beats);
    if (clock::now() < std::max(r.next_said, *r.began + beat)) return;
    r.next_said = clock::now() + beat;
    if (r.sent_to != whom) r.sent_come = rank_set(net_.size());
    r.sent_to = whom;
    for (std::size_t block = 0; block < r.come.size(); ++block)
        for (const int peer : whom)
            if (r.come[block] != r.sent_come[block])
                send_control(peer, membership_kind::come, {epoch_, static_cast<std::uint32_t>(block)}, r.come[block]);
    r.sent_come = r.come;
}

bool failure_agreement::is_agreed(bool all_come) {
    const bool is_out = weighed_.failed.contains(net_.rank());
    if (knowledge_.has_pairs() && expects_more_ && !all_come) return false;
    if ((!all_come || is_out) && clock::now() - knowledge_.changed() > patience_) return true;
    if (is_out) return false;
    return (~now().steps[knowledge_.hash()].come & before(steps_around(weighed_.live))) == 0;
}

void failure_agreement::send_verdict(int peer, std::uint16_t epoch) {
    round_state& r = round(epoch);
    r.informed.insert(peer);
    std::uint64_t hash = 0;
    for (const testimony_of_failure& t : *r.final) hash = add_to_hash(hash, t);
    const auto all = static_cast<std::uint32_t>(r.final->size());
    for (const testimony_of_failure& t : *r.final)
        send_control(peer, membership_kind::decided, {.epoch = epoch}, statement_of(t, all, hash));
    if (all == 0) send_control(peer, membership_kind::decided, {.epoch = epoch}, statement{});
}

void failure_agreement::next_round() {
    rounds_.erase(static_cast<std::uint16_t>(epoch_++ - 1));
    verdict_.clear();
    for (auto& [rank, c] : contacts_) c.greeted = false;
    knowledge_.set_changed();
}

std::vector<int> failure_agreement::silent() const {
    std::vector<int> ranks;
    for (int peer = 0; peer < net_.size(); ++peer)
        if (peer != net_.rank() && !weighed_.failed.contains(peer) && !has_come(peer)) ranks.push_back(peer);
    return ranks;
}

}  // namespace terrace::detail
