#include "transport/team.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

team::team(std::shared_ptr<bootstrap> by, int rank, int size) : by_(std::move(by)), members_(at(size)), rank_(rank) {
    std::iota(members_.begin(), members_.end(), 0);
}

team::team(const team& whole, std::string name, std::span<const int> ranks)
    : by_(whole.by_),
      name_(std::move(name)),
      rank_(static_cast<int>(std::find(ranks.begin(), ranks.end(), whole.rank_) - ranks.begin())),
      look_(whole.look_) {
    for (const int r : ranks) {
        members_.push_back(whole.members_[at(r)]);
        if (!whole.node_names_.empty()) node_names_.push_back(whole.node_names_[at(r)]);
    }
}

int team::world_rank(int rank) const noexcept {
    const int member = members_[at(rank)];
    return by_->world_ranks().empty() ? member : by_->world_ranks()[at(member)];
}

std::vector<std::string> team::exchange(std::string_view own) {
    const std::shared_ptr<const wait_hook> look = look_.lock();
    return by_->exchange(members_, fmt::format("{}/{}", name_, turn_++), own, look ? *look : wait_hook());
}

void team::gather_all(const void* mine, void* all, std::size_t bytes) {
    auto* to = static_cast<char*>(all);
    for (const std::string& each : exchange({static_cast<const char*>(mine), bytes})) {
        std::memcpy(to, each.data(), bytes);
        to += bytes;
    }
}

std::string team::broadcast(std::string_view text) { return exchange(rank_ == 0 ? text : std::string_view()).front(); }

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
    return team(*this, fmt::format("{}/{}:{}", name_, turn, color), ranks);
}

team team::part(std::span<const int> ranks, std::string_view name) const {
    return team(*this, fmt::format("{}/{}", name_, name), ranks);
}

const std::vector<std::string>& team::node_names() {
    if (node_names_.empty()) node_names_ = exchange(by_->node());
    return node_names_;
}

std::string team::memory_apart() { return detail::memory_apart(node_names()); }

std::vector<int> team::nodes() {
    std::map<std::string_view, int> lowest;
    std::vector<int> nodes;
    for (const std::string& name : node_names())
        nodes.push_back(lowest.emplace(name, static_cast<int>(nodes.size())).first->second);
    return nodes;
}

}  // namespace terrace::detail
