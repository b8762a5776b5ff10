#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "bench/discover/hypothesis.hpp"

namespace terrace::detail::bench {

/// A level of groups of the groups of levels[below], inside those of the level after it.
class level_search {
public:
    level_search(const std::vector<observation>& seen, const groupings& levels, std::size_t below);

    /// Groups that explain more than they cost, if there are some; what they gain [misfit].
    std::optional<std::pair<grouping, double>> find();
    double confidence() const noexcept { return confidence_; }

    groupings inserted(const grouping& g) const;

private:
    grouping of_nodes(const std::vector<int>& groups) const;

    double cost(const std::vector<int>& groups) const;

    // Items between which no stream is slower than expected are in one group: nothing slows down what stays inside.
    std::vector<int> never_slowed() const;

    // Moves one item at a time to where it explains more, until nothing does. Returns the cost.
    double climb(std::vector<int>& groups) const;
    // Makes one group of two wherever that lowers the cost, `now`. Returns true if it did.
    bool join(std::vector<int>& groups, double& now) const;

    // Returns the part of the misfit that a hypothesis explains of the streams that it has slower, or nothing where
    // that is less than half, or these are too few of `streams`.
    std::optional<double> explained(const hypothesis& without, const hypothesis& with, std::size_t streams) const;

    // How many streams leave or enter group g.
    std::size_t streams_of(const std::vector<int>& groups, int g) const;

    // Takes groups apart that explain too little by themselves.
    std::vector<int> without_hidden(std::vector<int> groups) const;

    // Where one group alone shares a link, what is left of its parent is taken for the other group: all that goes
    // through the one's link goes through the other's, so that nothing tells them apart. Beside several groups what is
    // left is one more where it never carried what its members have: the others' links then hide its own.
    std::vector<int> with_the_rest(std::vector<int> groups) const;
    bool hides_behind_others(const std::vector<int>& groups, const std::vector<int>& joined,
                             const std::vector<std::size_t>& single) const;

    const std::vector<observation>& seen_;
    const groupings& levels_;
    std::size_t below_;
    hypothesis before_;
    std::vector<int> parent_;
    double confidence_ = 0;
};

}  // namespace terrace::detail::bench
