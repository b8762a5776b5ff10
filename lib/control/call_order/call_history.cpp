#include "control/call_order/call_history.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/hash.hpp"

namespace terrace::detail {

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

std::array<call_stamp, call_history::remembered> call_history::stamps() const noexcept {
    std::array<call_stamp, remembered> own{};
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = {recent_[i].number, recent_[i].after};
    return own;
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

}  // namespace terrace::detail
