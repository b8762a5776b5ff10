#include "transport/team.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

team::team(std::shared_ptr<bootstrap> by, int rank, int size) : by_(std::move(by)), members_(at(size)), rank_(rank) {
    std::iota(members_.begin(), members_.end(), 0);
}

team::team(std::shared_ptr<bootstrap> by, std::string name, std::vector<int> members, int rank)
    : by_(std::move(by)), name_(std::move(name)), members_(std::move(members)), rank_(rank) {}

std::string team::next_key() { return fmt::format("{}/{}", name_, turn_++); }

std::vector<std::string> team::exchange(std::string_view own) {
    const std::string key = next_key();
    by_->put(members_, key, own);
    std::vector<std::string> all;
    all.reserve(members_.size());
    for (const int member : members_) all.push_back(by_->get(member, key));
    by_->forget(key);
    return all;
}

void team::gather_all(const void* mine, void* all, std::size_t bytes) {
    auto* to = static_cast<char*>(all);
    for (const std::string& each : exchange({static_cast<const char*>(mine), bytes})) {
        std::memcpy(to, each.data(), bytes);
        to += bytes;
    }
}

std::string team::broadcast(std::string_view text) {
    const std::string key = next_key();
    by_->put(members_, key, rank_ == 0 ? text : std::string_view());
    std::string first = by_->get(members_.front(), key);
    by_->forget(key);
    return first;
}

std::optional<team> team::split(int color, int key) {
    struct choice {
        int color, key;
    };
    const choice mine{color, key};
    std::vector<choice> all(members_.size());
    const std::uint64_t turn = turn_;
    gather_all(&mine, all.data(), sizeof mine);
    if (color < 0) return {};
    std::vector<int> ranks;
    for (int r = 0; r < size(); ++r)
        if (all[at(r)].color == color) ranks.push_back(r);
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return all[at(a)].key < all[at(b)].key; });
    std::vector<int> members;
    for (const int r : ranks) members.push_back(members_[at(r)]);
    const auto self = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    return team(by_, fmt::format("{}/{}:{}", name_, turn, color), std::move(members), static_cast<int>(self));
}

team team::part(std::span<const int> ranks, std::string_view name) const {
    std::vector<int> members;
    for (const int r : ranks) members.push_back(members_[at(r)]);
    const auto self = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    return team(by_, fmt::format("{}/{}", name_, name), std::move(members), static_cast<int>(self));
}

std::vector<int> team::nodes() {
    const std::vector<std::string> names = exchange(by_->node());
    std::map<std::string_view, int> lowest;
    std::vector<int> nodes;
    for (int r = 0; r < size(); ++r) nodes.push_back(lowest.emplace(names[at(r)], r).first->second);
    return nodes;
}

}  // namespace terrace::detail
