#pragma once

#include <span>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// The orders in which parts of a vector pass through stages. On a torus each part may begin with another dimension, so
/// that the links of all dimensions are busy at once. Stages inside nodes come before that.
struct routes {
    int common = 0;                        ///< number of stages that the whole vector passes first, in one order
    std::vector<std::vector<int>> orders;  ///< of the other stages, by number; empty if there are none
    std::vector<int> shares;               ///< how much of the vector takes each order

    int count() const noexcept { return static_cast<int>(orders.size()); }
};

/// Returns the routes that the stages' route shares describe.
/// @throws stage_error if a stage that has one is not a dimension of a torus, or cannot change places with the others
routes routes_of(const hierarchy& machine, std::span<const stage> stages);

/// Returns how many times as much of a vector a stage has where the vector goes through the stages in another order:
/// every stage before it divides the vector by its size.
double growth_in_order(std::span<const stage> stages, const std::vector<int>& order, int number);

/// Returns the stages that could come first, at least two. Returns none if the last stages are not whole dimensions of
/// a torus of equal nodes, or if a stage has another mode than scatter.
std::span<const stage> dimensions_of(const hierarchy& machine, std::span<const stage> stages);

}  // namespace terrace::detail
