#include "schedule/collective_call.hpp"

namespace terrace::detail {

std::int64_t collective_call::elements() const noexcept {
    if (!row_of(what).blocks) return count;
    std::int64_t all = 0;
    for (const range block : blocks) all += block.count();
    return all;
}

collective_call collective_call::chunk(std::int64_t elements) const {
    collective_call made = *this;
    made.count = elements;
    for (range& block : made.blocks) block.end = block.begin + elements;
    return made;
}

collective_call collective_call::chunk_of(std::int64_t chunks, bool last) const {
    collective_call made = *this;
    for (range& block : made.blocks) {
        const std::int64_t equal = block.count() / chunks;
        if (last) block.begin += (chunks - 1) * equal;
        else block.end = block.begin + equal;
    }
    return made;
}

std::vector<range> side_by_side(std::span<const std::int64_t> counts) {
    std::vector<range> all;
    std::int64_t end = 0;
    for (const std::int64_t count : counts) {
        all.push_back({end, end + count});
        end = all.back().end;
    }
    return all;
}

std::vector<range> equal_blocks(int ranks, std::int64_t count) {
    return side_by_side(std::vector(static_cast<std::size_t>(ranks), count));
}

collective_call equal_call(int ranks, collective what, std::int64_t count, std::size_t element) {
    collective_call made{.what = what, .count = count, .element = element};
    if (row_of(what).blocks) made.blocks = equal_blocks(ranks, count);
    return made;
}

}  // namespace terrace::detail
