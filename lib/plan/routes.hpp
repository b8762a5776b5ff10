#pragma once

#include <span>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// The orders in which parts of a vector pass through stages. On a torus each part may begin with another dimension, so
/// the links of all dimensions are busy at once. Stages inside nodes come first.
struct routes {
    int common = 0;                        ///< number of stages that the whole vector passes first, in one order
    std::vector<std::vector<int>> orders;  ///< orders of the other stages, by stage number; empty if there are none
    std::vector<int> shares;               ///< relative part of the vector for each order

    int count() const noexcept { return static_cast<int>(orders.size()); }
};

/// Returns the routes that the stages' route shares describe.
/// @throws stage_error if a stage that has one is not a dimension of a torus, or cannot change places with the others
routes routes_of(const hierarchy& machine, std::span<const stage> stages);

/// Returns how many times larger a stage's part of the vector is in this order of the stages than in the written order.
/// Every stage before it divides the vector by its group size. @param number of the stage
double growth_in_order(std::span<const stage> stages, const std::vector<int>& order, int number);

/// Returns the stages with which a route may begin, at least two. Returns none if the last stages are not whole
/// dimensions of a torus of equal nodes, or if a stage has another mode than scatter.
std::span<const stage> dimensions_of(const hierarchy& machine, std::span<const stage> stages);

}  // namespace terrace::detail
