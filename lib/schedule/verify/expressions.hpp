#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/range.hpp"
#include "base/wire_type.hpp"

// Symbolic values of the elements of a rank's memory.

namespace terrace::detail::proof {

// Sums as they are computed. Equal expressions have equal numbers; two operands may be exchanged, as in IEEE addition.
class expressions {
public:
    // @param tree place of each rank in the tree of a reproducible reduction, else empty
    explicit expressions(int ranks, std::vector<int> tree = {})
        : ranks_(ranks), words_((at(ranks) + 63) / 64), tree_(std::move(tree)) {
        contributors_.resize(at(ranks) * words_, 0);
        for (int r = 0; r < ranks; ++r) set(r)[at(r) / 64] |= std::uint64_t{1} << r % 64;
    }

    // Returns the number of a rank's input.
    static int input(int rank) { return rank; }

    // Returns the number of a sum; negative if a rank contributes to two terms. Reproducible sums use the tree.
    int sum(std::vector<int> terms) { return tree_.empty() ? plain_sum(std::move(terms)) : sum_by_tree(terms); }

    // Returns the number of a value after encoding and decoding. 16-bit types round each element by itself. int8 rounds
    // by blocks: only data encoded from the same place on, in the same length, are known to be equal.
    int rounded(int value, wire_type as, std::int64_t first, std::int64_t count) {
        const bool alone = as != wire_type::int8;
        const std::array<std::int64_t, 4> key{value, static_cast<std::int64_t>(as), alone ? 0 : first,
                                              alone ? 0 : count};
        const auto [known, is_new] = rounded_.try_emplace(key, static_cast<int>(contributors_.size() / words_));
        if (is_new) {
            const std::vector<std::uint64_t> same(set(value), set(value) + words_);
            contributors_.insert(contributors_.end(), same.begin(), same.end());
        }
        // Rounding a value again to the same type does not change it.
        if (is_new && alone) rounded_[{known->second, key[1], 0, 0}] = known->second;
        return known->second;
    }

    // Returns false if the call is a reproducible reduction and the number is not that of the tree's sum of all ranks.
    bool by_tree(int number) {
        if (tree_.empty()) return true;
        if (whole_ < 0) {
            std::vector<int> inputs(at(ranks_));
            for (int r = 0; r < ranks_; ++r) inputs[at(tree_[at(r)])] = input(r);
            whole_ = inputs.size() == 1 ? inputs.front() : sum(inputs);
        }
        return number == whole_;
    }

    bool complete(int number) {
        int count = 0;
        for (std::size_t w = 0; w < words_; ++w) count += std::popcount(set(number)[w]);
        return count == ranks_;
    }

private:
    std::uint64_t* set(int number) { return contributors_.data() + at(number) * words_; }

    // Repeats the kernels' tree: the left part has the largest power of two below the number of terms.
    int sum_by_tree(std::span<const int> terms) {
        if (terms.size() == 1) return terms.front();
        const std::size_t left = std::bit_floor(terms.size() - 1);
        const int a = sum_by_tree(terms.first(left)), b = sum_by_tree(terms.subspan(left));
        return a < 0 || b < 0 ? -1 : plain_sum({a, b});
    }

    int plain_sum(std::vector<int> terms) {
        if (terms.size() == 2 && terms[0] > terms[1]) std::swap(terms[0], terms[1]);
        const auto known = numbers_.find(terms);
        if (known != numbers_.end()) return known->second;
        std::vector<std::uint64_t> all(words_, 0);
        for (int term : terms)
            for (std::size_t w = 0; w < words_; ++w) {
                if (all[w] & set(term)[w]) return -1;
                all[w] |= set(term)[w];
            }
        const int number = static_cast<int>(contributors_.size() / words_);
        contributors_.insert(contributors_.end(), all.begin(), all.end());
        numbers_.emplace(std::move(terms), number);
        return number;
    }

    int ranks_;
    std::size_t words_;
    std::vector<int> tree_;
    int whole_ = -1;                           // the sum by the tree, once it is known
    std::vector<std::uint64_t> contributors_;  // a bit set per expression
    std::map<std::vector<int>, int> numbers_;
    std::map<std::array<std::int64_t, 4>, int> rounded_;  // by value, type, and for int8 place and length
};

// Some elements of equal history, counted from the beginning of their operand.
struct piece {
    range part;
    int value = -1;           // an expression; -1: not written yet
    std::int64_t origin = 0;  // place of the first element in the caller's input
    bool finished = false;    // written by a reduction that completes: avg has divided it
};
using pieces = std::vector<piece>;

// Calls f(range, column) for the common refinement of the rows; column[i] is row i's piece there, cut to the range.
template <class F>
void for_each_column(std::span<const pieces> rows, F&& f) {
    std::vector<std::size_t> next(rows.size(), 0);
    pieces column(rows.size());
    for (std::int64_t begin = 0; next[0] < rows[0].size();) {
        std::int64_t end = rows[0][next[0]].part.end;
        for (std::size_t r = 1; r < rows.size(); ++r) end = std::min(end, rows[r][next[r]].part.end);
        for (std::size_t r = 0; r < rows.size(); ++r) {
            const piece& p = rows[r][next[r]];
            column[r] = {{begin, end}, p.value, p.origin + begin - p.part.begin, p.finished};
            if (p.part.end == end) ++next[r];
        }
        f(range{begin, end}, column);
        begin = end;
    }
}

}  // namespace terrace::detail::proof
