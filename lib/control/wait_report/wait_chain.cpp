#include "control/wait_report/wait_chain.hpp"

#include <cmath>

namespace terrace::detail {

void wait_chain::receive(int from, const control_frame& f) {
    const auto kind = static_cast<wait_kind>(f.kind);
    if (kind == wait_kind::question) {
        askers_.insert(from);
        unanswered_.insert(from);
        return;
    }
    waits_for_[from] = static_cast<int>(f.number);
    if (kind == wait_kind::last_reply) gone_[from] = waits_for_[from];
    open_.erase(from);
}

// Returns the end of the chain as far as it is known; nothing if the chain leads to this rank or in a circle.
std::optional<int> wait_chain::reached() const {
    int last = awaited_;
    for (std::size_t steps = 0; steps <= waits_for_.size(); ++steps) {
        if (last < 0 || last == net_.rank()) return {};
        const auto next = waits_for_.find(last);
        if (next == waits_for_.end()) return last;
        last = next->second;
    }
    return {};
}

void wait_chain::look(std::chrono::duration<double> waited, int awaited) {
    if (awaited != awaited_) {
        awaited_ = awaited;
        rounds_ = 0;
        waits_for_ = gone_;
        asked_.clear();
        found_.reset();
    }
    for (const int peer : unanswered_) answer(peer, wait_kind::reply, awaited);
    unanswered_.clear();
    if (timeout_.count() <= 0 || waited <= timeout_ / 2) return;
    constexpr int most_rounds = 4;  // after 1/2, 3/4, 7/8 and 15/16 of the timeout
    if (rounds_ < most_rounds && waited > timeout_ * (1 - std::ldexp(1, -rounds_ - 1))) {
        found_ = end();
        waits_for_ = gone_;
        asked_.clear();
        ++rounds_;
    }
    const std::optional<int> next = reached();
    if (!next || !asked_.try_emplace(*next, clock::now()).second) return;
    open_.insert(*next);
    send_control(*next, wait_kind::question);
}

std::optional<int> wait_chain::end() const {
    const std::optional<int> last = reached();
    if (!last) return {};
    constexpr double patience = 1.0 / 64;  // time to answer, as a part of the timeout
    const auto asked = asked_.find(*last);
    if (asked != asked_.end() && clock::now() - asked->second > timeout_ * patience) return last;
    return found_;
}

}  // namespace terrace::detail
