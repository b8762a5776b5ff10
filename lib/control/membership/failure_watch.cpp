#include "control/membership/failure_watch.hpp"

#include <algorithm>

#include <terrace/error.hpp>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds short_wait(2);  // shorter waits are usual
constexpr milliseconds between_looks(5);
constexpr milliseconds while_ranks_agree(1);
// Parts of the timeout: to wait for messages of other ranks, and for better evidence about a lost connection.
constexpr double for_answers = 0.25, for_better_evidence = 0.25;

std::vector<int> lines_of(endpoint& net) {
    std::vector<int> lines;
    if (net.base().watch)
        for (const int member : net.ranks().members()) lines.push_back(net.base().watch->lines(member));
    return lines;
}

}  // namespace

failure_watch::failure_watch(control_router& router, const std::vector<int>& callers_rank,
                             std::chrono::duration<double> failure_timeout)
    : net_(router.net()),
      callers_rank_(callers_rank),
      timeout_(failure_timeout),
      agreement_(router, failure_timeout * for_answers, lines_of(net_)) {
    const std::vector<int>& members = net_.ranks().members();
    for (int r = 0; r < net_.size(); ++r) rank_of_member_.emplace(members[at(r)], r);
}

bool failure_watch::has_work(std::chrono::duration<double> waited) noexcept {
    if (waited < short_wait) return false;
    const auto now = clock::now();
    if (now < next_look_) return false;
    next_look_ = now + (agreement_.known_failed().empty() ? between_looks : while_ranks_agree);
    return true;
}

void failure_watch::ask_liveness(const std::function<bool(int)>& awaits) {
    found_.clear();
    agreement_.expect_more(net_.base().watch->look(found_));
    for (const sighting& s : found_) {
        if (s.by == evidence::acknowledged && !agreement_.knowledge().has_pairs()) continue;
        const auto found = rank_of_member_.find(s.rank);
        if (found == rank_of_member_.end()) continue;
        const bool left = s.by == evidence::process_left || s.by == evidence::has_left;
        const bool is_missed = s.by == evidence::process_left && awaits(found->second);
        if (left && !is_missed && !agreement_.knowledge().is_in_a_pair(found->second)) continue;
        agreement_.add({.rank = found->second, .by = net_.rank(), .shows = left ? evidence::process_left : s.by});
    }
}

// A lost connection counts only after some time, since better evidence usually shows at once why it was lost.
void failure_watch::look_for_lost() {
    for (const lost_peer& l : net_.wire().lost()) {
        if (timeout_.count() <= 0) throw transport_error(l.why.library, l.why.call, l.why.code, l.why.message);
        const auto now = clock::now();
        if (now - lost_since_.try_emplace(l.peer, now).first->second > timeout_ * for_better_evidence)
            agreement_.add({.rank = l.peer, .by = net_.rank(), .shows = evidence::connection_lost});
    }
}

std::vector<failed_rank> failure_watch::callers_failed() const {
    std::vector<failed_rank> failed;
    for (const auto& [rank, by] : agreement_.verdict()) {
        const liveness* watch = net_.base().watch.get();
        const int member = net_.base().ranks.members()[at(rank)];
        std::string noticed(rank == net_.rank() ? "so other ranks say of this one" : row_of(by).words);
        if (watch != nullptr && rank != net_.rank() && is_of_a_pair(by)) noticed += ", " + watch->way(member);
        failed.push_back({.rank = callers_rank_[at(rank)],
                          .host = watch != nullptr ? watch->host(member) : "",
                          .how = row_of(by).of,
                          .noticed = std::move(noticed)});
    }
    std::sort(failed.begin(), failed.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    return failed;
}

void failure_watch::report_failures() const {
    std::vector<int> failed, dead;
    for (const auto& [rank, by] : agreement_.verdict()) {
        failed.push_back(net_.ranks().members()[at(rank)]);
        if (row_of(by).of == failure::died) dead.push_back(failed.back());
    }
    net_.base().net->lose(failed, dead);
}

}  // namespace terrace::detail
