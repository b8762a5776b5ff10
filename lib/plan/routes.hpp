#pragma once

#include <span>
#include <vector>

#include "plan/recipe.hpp"

namespace terrace {

/// The orders in which parts of a vector go through stages. On a torus each part may begin with another dimension, so
/// that the links of all are busy at once; what is inside nodes comes before that.
struct routes {
    int common = 0;                        ///< how many stages all of the vector goes through first, in one order
    std::vector<std::vector<int>> orders;  ///< of the others, by their numbers; empty where there are none
    std::vector<int> shares;               ///< how much of the vector goes through them in each order

    int count() const noexcept { return static_cast<int>(orders.size()); }
};

/// Those that `stage::first` asks for. @throws stage_error where it stands at a stage that is no dimension of a torus
routes routes_of(const hierarchy& machine, std::span<const stage> stages);

/// The stages that could come first, of which there are at least two; else none: where the last stages are not whole
/// dimensions of a torus of equal nodes, or anything but mode scatter.
std::span<const stage> dimensions_of(const hierarchy& machine, std::span<const stage> stages);

}  // namespace terrace
