#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/letters.hpp"

namespace terrace::detail {

/// Returns the smallest number of insertions, deletions and replacements between two texts (Levenshtein).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}

/// Returns the name nearest to a mistyped word, whatever the case of letters, or an empty text if no name is near. At
/// most half of the word's letters may differ. Leading dashes of options do not count.
template <class Names>
std::string_view nearest_name(std::string_view word, const Names& names) {
    const std::string typed = in_lower_case(std::string(word));
    const std::size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
    std::string_view nearest;
    std::size_t least = letters / 2 + 1;
    for (const auto& name : names) {
        const std::size_t distance = edit_distance(typed, in_lower_case(std::string(name)));
        if (distance >= least) continue;
        least = distance;
        nearest = name;
    }
    return nearest;
}

/// Returns "; did you mean NAME?" for the nearest of `names`, or an empty text.
template <class Names>
std::string did_you_mean(std::string_view word, const Names& names) {
    const std::string_view nearest = nearest_name(word, names);
    return nearest.empty() ? "" : "; did you mean " + std::string(nearest) + "?";
}

}  // namespace terrace::detail
