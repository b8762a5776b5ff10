#include "schedule/group.hpp"

#include <algorithm>

namespace terrace::detail {

group group::numbered(int size) {
    std::vector<range> shards;
    for (int i = 0; i < size; ++i) shards.push_back({i, i + 1});
    return {numbers_below(size), std::move(shards)};
}

group group::with_root_relieved() const {
    std::vector<range> mine = shards();
    const std::size_t r = at(root_);
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

std::array<range, 2> group::shards_from(int first, int n) const noexcept {
    const int begin = wrapped(first), end = std::min(begin + n, size());
    const auto join = [&](int from, int to) {
        if (from == to) return range{whole().begin, whole().begin};
        return range{shards()[at(from)].begin, shards()[at(to - 1)].end};
    };
    return {join(begin, end), join(0, begin + n - end)};
}

}  // namespace terrace::detail
