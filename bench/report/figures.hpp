#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail::bench {

// Sizes and rates as nccl-tests count them: the size of a call is that of the larger of its buffers.

/// Returns the element count of a call for about `bytes`: of the vector, or of each block if there are blocks, which
/// are multiples of 16 bytes. `element` is the size of an element.
std::int64_t count_of(collective what, std::int64_t bytes, std::size_t element, int ranks) noexcept;
/// Returns the bytes of the larger buffer of a call with this many elements.
std::int64_t bytes_of(collective what, std::int64_t count, std::size_t element, int ranks) noexcept;
/// Returns bus bandwidth over algorithm bandwidth: the least bytes on the busiest link per byte of the call.
double bus_factor(collective what, int ranks) noexcept;

/// Returns the quantile `part` (0 ... 1) of `values`, interpolated. @param values at least one
double quantile(std::span<const double> values, double part);

/// Returns values[i] / reference[i]. A disturbance that affects both of a pair alike cancels out.
std::vector<double> paired_ratios(std::span<const double> values, std::span<const double> reference);

/// Returns the order of a round: a permutation of 0 ... backends - 1. Over `backends` rounds (twice as many if their
/// number is odd) each is in every place, and after every other, equally often: Williams' design.
std::vector<std::size_t> order_of_round(std::size_t backends, int round);

}  // namespace terrace::detail::bench
