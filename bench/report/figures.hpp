#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail::bench {

// Sizes and rates as nccl-tests count them: the size of a call is that of the larger of its buffers.

/// Elements that a call for about `bytes` gets: of the vector; of reduce_scatter and allgather in every rank's block,
/// which is a multiple of 16 bytes. `element` is the size of one.
std::int64_t count_of(collective what, std::int64_t bytes, std::size_t element, int ranks) noexcept;
/// Bytes of the larger buffer of a call with so many elements.
std::int64_t bytes_of(collective what, std::int64_t count, std::size_t element, int ranks) noexcept;
/// Bus bandwidth over algorithm bandwidth: what the busiest link must carry at least, per byte of the call.
double bus_factor(collective what, int ranks) noexcept;

/// The value that `part` (0 ... 1) of `values` stay below or at, interpolated. There is at least one.
double quantile(std::span<const double> values, double part);

/// values[i] / reference[i]: what hits both of a pair alike drops out.
std::vector<double> paired_ratios(std::span<const double> values, std::span<const double> reference);

/// Who goes when in a round: a permutation of 0 ... backends - 1. Over `backends` rounds (twice as many where their
/// number is odd) each has every place, and every other before it, equally often: Williams' design.
std::vector<std::size_t> order_of_round(std::size_t backends, int round);

}  // namespace terrace::detail::bench
