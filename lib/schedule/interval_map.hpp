#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

#include "base/index.hpp"
#include "base/range.hpp"

namespace terrace::detail {

/// A value for every element index, stored per interval of equal updates; default-constructed until updated.
template <class Value>
class interval_map {
public:
    /// Calls f(value) for every interval inside `part`, cutting intervals at its ends.
    template <class F>
    void update(range part, F&& f) {
        visit(part, [&](range, Value& value) { f(value); });
    }

    /// Calls f(range, value) likewise.
    template <class F>
    void visit(range part, F&& f) {
        if (part.empty()) return;
        cut(part.begin);
        cut(part.end);
        for (auto i = pieces_.find(part.begin); i->first < part.end; ++i)
            f(range{i->first, std::next(i)->first}, i->second);
    }

private:
    // Makes `at` a boundary. A boundary's value holds from there to the next one.
    void cut(std::int64_t at) {
        const auto after = pieces_.upper_bound(at), before = std::prev(after);
        if (before->first != at) pieces_.emplace_hint(after, at, before->second);
    }

    std::map<std::int64_t, Value> pieces_{{std::numeric_limits<std::int64_t>::min(), Value{}}};
};

/// The same for parts that are all known before the first update. Arrays replace the map: no memory per interval.
template <class Value>
class known_intervals {
public:
    void expect(range part) {
        if (part.empty()) return;
        if (bounds_.empty() || bounds_.back() != part.begin) bounds_.push_back(part.begin);
        bounds_.push_back(part.end);
    }
    /// Ends the calls of expect(), before the first update().
    void begin() {
        keep_different(bounds_);
        values_.resize(bounds_.size());
    }
    /// Calls f(value) for every interval inside `part`, an expected part.
    template <class F>
    void update(range part, F&& f) {
        if (part.empty()) return;
        const auto first = std::lower_bound(bounds_.begin(), bounds_.end(), part.begin);
        for (auto i = static_cast<std::size_t>(first - bounds_.begin()); bounds_[i] < part.end; ++i) f(values_[i]);
    }

private:
    std::vector<std::int64_t> bounds_;
    std::vector<Value> values_;  // from each bound to the next one
};

/// A set of elements.
class interval_set {
public:
    void add(range part) {
        map_.update(part, [](bool& in) { in = true; });
    }
    /// Returns true if the set has any element of `part`.
    bool touches(range part) {
        bool any = false;
        map_.update(part, [&](const bool& in) { any |= in; });
        return any;
    }
    /// Returns the parts of `part` that are not in the set.
    std::vector<range> gaps(range part) {
        std::vector<range> result;
        map_.visit(part, [&](range piece, const bool& in) {
            if (in) return;
            if (!result.empty() && result.back().end == piece.begin) result.back().end = piece.end;
            else result.push_back(piece);
        });
        return result;
    }

private:
    interval_map<bool> map_;
};

}  // namespace terrace::detail
