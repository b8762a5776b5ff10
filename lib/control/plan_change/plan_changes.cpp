#include "control/plan_change/plan_changes.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

constexpr std::uint64_t ahead = 1;          // calls that may begin while ranks agree: one may be beginning already
constexpr std::size_t most_at_once = 4096;  // messages that one look() sends
using piece = std::array<char, 32>;

}  // namespace

void plan_changes::propose(std::string text) {
    const auto known = std::ranges::find(known_, text);
    const auto number = static_cast<std::uint16_t>(known - known_.begin());
    const std::size_t sent = known == known_.end() ? 0 : text.size();
    const auto missing = static_cast<std::uint32_t>(text.size() - sent);
    for (int r = 1; r < net_.size(); ++r) send_control(r, plan_kind::offer, {number, missing});
    if (missing > 0) known_.push_back(text);
    sending_ = {std::move(text), sent};
    look();
}

void plan_changes::look() {
    auto& [text, sent] = sending_;
    if (text.empty() || ended_) return;
    for (std::size_t queued = 0; sent < text.size() && queued < most_at_once; queued += at(net_.size())) {
        piece p{};
        sent += text.copy(p.data(), p.size(), sent);
        for (int r = 1; r < net_.size(); ++r) send_control(r, plan_kind::piece, {}, p);
    }
    if (sent < text.size()) return;
    coming_.text = std::exchange(text, {});
    take();
}

// This rank has received the whole plan. It answers now, or when the previous change is complete.
void plan_changes::take() {
    coming_.is_here = first_.has_value();
    if (first_) return;
    text_ = std::exchange(coming_.text, {});
    last_ = calls_.issued() + ahead;
    if (net_.rank() == 0) take_answer(0, calls_.issued());
    else send_control(0, plan_kind::ready, {}, calls_.issued());
}

void plan_changes::take_answer(int from, std::uint64_t issued) {
    answers_[from] = issued;
    if (answers_.size() < at(net_.size())) return;
    first_ = std::ranges::max_element(answers_, {}, [](const auto& a) { return a.second; })->second + ahead + 1;
    for (int r = 1; r < net_.size(); ++r) send_control(r, plan_kind::first_call, {}, *first_);
    answers_.clear();
}

void plan_changes::receive(int from, const control_frame& f) {
    if (ended_) return;
    switch (static_cast<plan_kind>(f.kind)) {
        case plan_kind::offer:
            coming_ = {{}, f.number};
            if (f.number > 0) return;
            coming_.text = known_[f.epoch];
            return take();
        case plan_kind::piece: {
            const auto p = f.get<piece>();
            const std::size_t more = std::min(coming_.missing, p.size());
            coming_.text.append(p.data(), more);
            coming_.missing -= more;
            if (coming_.missing > 0) return;
            known_.push_back(coming_.text);
            return take();
        }
        case plan_kind::ready: return take_answer(from, f.get<std::uint64_t>());
        case plan_kind::first_call: first_ = f.get<std::uint64_t>();
    }
}

// A rank that ends sends an answer, so rank 0 does not wait for it.
void plan_changes::end(bool announces) noexcept {
    ended_ = true;
    if (!announces) return;
    if (net_.rank() != 0) return send_control(0, plan_kind::ready, {}, calls_.issued());
    if (!last_ || first_) return;
    first_ = std::numeric_limits<std::uint64_t>::max();
    for (int r = 1; r < net_.size(); ++r) send_control(r, plan_kind::first_call, {}, *first_);
}

bool plan_changes::may_begin() noexcept {
    const bool may = !last_ || first_ || calls_.issued() < *last_;
    if (may) since_ = {};
    else if (since_ == clock::time_point{}) since_ = clock::now();
    return may;
}

std::optional<std::string> plan_changes::due() {
    if (!first_ || calls_.issued() + 1 < *first_) return {};
    changed_at_ = *std::exchange(first_, {});
    last_.reset();
    std::string text = std::exchange(text_, {});
    if (coming_.is_here) take();
    return text;
}

void plan_changes::add_waits(const std::vector<int>& callers_rank, waiting& all) const {
    if (since_ == clock::time_point{}) return;
    std::vector<int> silent{0};
    if (net_.rank() == 0) {
        silent.clear();
        for (int r = 1; r < net_.size(); ++r)
            if (!answers_.contains(r)) silent.push_back(r);
    }
    for (const int r : silent) {
        const int rank = callers_rank[at(r)];
        all.add(rank, fmt::format("call {}: rank {} has not said when plans change", calls_.issued() + 1, rank));
    }
}

}  // namespace terrace::detail
