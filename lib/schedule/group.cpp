#include "schedule/group.hpp"

#include <algorithm>
#include <utility>

#include "base/partition.hpp"

namespace terrace::detail {

group::group(std::vector<int> members, std::vector<range> shards, int root, int ordinal, int position)
    : lists_(std::make_shared<const lists>(lists{std::move(members), std::move(shards), {}})),
      root_(root),
      ordinal_(ordinal),
      position_(position) {}

group group::numbered(int size) {
    std::vector<int> members;
    std::vector<range> shards;
    for (int i = 0; i < size; ++i) {
        members.push_back(i);
        shards.push_back({i, i + 1});
    }
    return {std::move(members), std::move(shards)};
}

group group::seen_from(int position) const {
    group same = *this;
    same.position_ = position;
    return same;
}

group group::with_nodes(std::vector<int> nodes) const {
    group same = *this;
    same.lists_ = std::make_shared<const lists>(lists{members(), shards(), std::move(nodes)});
    return same;
}

group group::with_shards(std::vector<range> shards) const {
    group same = *this;
    same.lists_ = std::make_shared<const lists>(lists{members(), std::move(shards), nodes()});
    return same;
}

group group::with_root_relieved() const {
    std::vector<range> mine = shards();
    const auto r = static_cast<std::size_t>(root_);
    const range own = mine[r];
    if (r + 1 < mine.size()) {
        mine[r].end = own.begin;
        mine[r + 1].begin = own.begin;
    } else if (r > 0) {
        mine[r].begin = own.end;
        mine[r - 1].end = own.end;
    }
    return with_shards(std::move(mine));
}

group group::without_root() const {
    std::vector<int> others = members();
    std::vector<range> theirs = with_root_relieved().shards();
    others.erase(others.begin() + root_);
    theirs.erase(theirs.begin() + root_);
    return {std::move(others), std::move(theirs), no_root, ordinal_};
}

int group::position_of(int rank) const noexcept {
    return static_cast<int>(std::find(members().begin(), members().end(), rank) - members().begin());
}

int group::wrapped(int position) const noexcept { return wrap(position, size()); }

std::array<range, 2> group::shards_from(int first, int n) const noexcept {
    const int begin = wrapped(first), end = std::min(begin + n, size());
    const auto join = [&](int from, int to) {
        if (from == to) return range{whole().begin, whole().begin};
        return range{shards()[static_cast<std::size_t>(from)].begin, shards()[static_cast<std::size_t>(to - 1)].end};
    };
    return {join(begin, end), join(0, begin + n - end)};
}

bool operator==(const group& a, const group& b) {
    return a.position_ == b.position_ && a.root_ == b.root_ && a.ordinal_ == b.ordinal_ &&
           (a.lists_ == b.lists_ || *a.lists_ == *b.lists_);
}

}  // namespace terrace::detail
