#include <algorithm>

#include <fmt/format.h>

#include "schedule/verify/proof.hpp"

namespace terrace::detail::proof {

namespace {

// Returns the parts ascending, without empty ones, neighbours joined, since an operand may span several.
std::vector<range> joined(std::vector<range> parts) {
    std::erase_if(parts, [](range r) { return r.empty(); });
    std::sort(parts.begin(), parts.end(), [](range a, range b) { return a.begin < b.begin; });
    std::vector<range> result;
    for (range r : parts) {
        if (!result.empty() && r.begin < result.back().end) throw fault{"blocks overlap"};
        if (!result.empty() && r.begin == result.back().end) result.back().end = r.end;
        else result.push_back(r);
    }
    return result;
}

void check_heads(std::span<const schedule> all) {
    if (all.empty()) throw fault{"no schedules"};
    for (std::size_t r = 0; r < all.size(); ++r) {
        const schedule& s = all[r];
        if (s.what != all[0].what)
            throw fault{fmt::format("rank {} runs {}, but rank 0 {}", r, to_string(s.what), to_string(all[0].what))};
        if (at(s.rank) != r || at(s.ranks) != all.size() || s.count != all[0].count || s.count < 0)
            throw fault{fmt::format("schedule {} is rank {} of {} with {} elements, but there are {} schedules of {}",
                                    r, s.rank, s.ranks, s.count, all.size(), all[0].count)};
    }
}

void check_blocks(const schedule& s, std::span<const range> blocks) {
    std::int64_t total = 0;
    for (range b : blocks) {
        if (b.begin < 0 || b.end < b.begin) throw fault{fmt::format("no such block as [{}, {})", b.begin, b.end)};
        total += b.count();
    }
    if (blocks.size() != at(s.ranks) || total != s.count)
        throw fault{fmt::format("there are {} blocks of {} elements together, but {} ranks and {} elements",
                                blocks.size(), total, s.ranks, s.count)};
}

void check_equal(std::span<const range> blocks) {
    for (const range b : blocks)
        if (b.count() != blocks[0].count())
            throw fault{fmt::format("blocks of {} and of {} elements in an exchange", blocks[0].count(), b.count())};
}

}  // namespace

bool stake::holds(const operand& o) const {
    if ((o.where != buffer::send && o.where != buffer::recv) || o.part.empty()) return true;
    const std::vector<range>& parts = o.where == buffer::send ? given : due;
    const range r = place(o);
    const auto after = std::ranges::upper_bound(parts, r.begin, {}, &range::begin);
    return after != parts.begin() && std::prev(after)->contains(r);
}

contract::contract(std::span<const schedule> all, const expectation& of) : marks_completion_(of.marks_completion) {
    check_heads(all);
    const collective what = all[0].what;
    adds_ = row_of(what).up;
    if (row_of(what).blocks) check_blocks(all[0], of.blocks);
    if (what == collective::alltoall) check_equal(exchanged_ = of.blocks);
    if (row_of(what).has_root() && (of.root < 0 || of.root >= all[0].ranks))
        throw fault{fmt::format("no such root as {}", of.root)};

    const std::vector<range> whole = joined(row_of(what).blocks ? of.blocks : std::vector{range{0, all[0].count}});
    for (int rank = 0; rank < all[0].ranks; ++rank) {
        stake& mine = stakes_.emplace_back(stake{.given = whole, .due = whole});
        if (what == collective::alltoall) {
            mine.send_at = whole.empty() ? 0 : whole.back().end;
            for (range& part : mine.given) part = {part.begin + mine.send_at, part.end + mine.send_at};
            continue;
        }
        if (row_of(what).blocks) {
            const range own = of.blocks[at(rank)];
            (row_of(what).gives_own_block() ? mine.send_at : mine.recv_at) = own.begin;
            (row_of(what).gives_own_block() ? mine.given : mine.due) = joined({own});
        }
        if (row_of(what).gives_nothing(rank == of.root)) mine.given.clear();
        if (row_of(what).gets_nothing(rank == of.root)) mine.due.clear();
    }
}

std::vector<contract::origin> contract::origins_of(int rank) const {
    std::vector<origin> result;
    for (std::size_t from = 0; from < exchanged_.size(); ++from)
        result.push_back(
            {exchanged_[from], static_cast<int>(from), stakes_[from].send_at + exchanged_[at(rank)].begin});
    return result;
}

}  // namespace terrace::detail::proof
