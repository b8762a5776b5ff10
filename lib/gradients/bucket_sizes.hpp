#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <terrace/gradients.hpp>

namespace terrace::detail {

/// Returns when the last bucket is predicted to be complete [s], since the first gradient was ready. A bucket begins
/// when its gradients are ready and the bucket before it is complete: calls in flight together share the links.
/// @param order of gradients   @param ready when each of them is ready [s], by place in the order; may be shorter
/// @param predicted time of an allreduce of so many bytes [s]
double predicted_end(std::span<const gradient_parameter> parameters, std::span<const int> order,
                     std::span<const double> ready, const gradient_options& sizes,
                     const std::function<double(std::int64_t)>& predicted);

/// Returns options whose bucket sizes are predicted to end first; of those that end at about the same time, the ones
/// that make the fewest buckets; those of `present` if nothing is gained.
gradient_options sizes_that_end_first(std::span<const gradient_parameter> parameters, std::span<const int> order,
                                      std::span<const double> ready, const gradient_options& present,
                                      const std::function<double(std::int64_t)>& predicted);

}  // namespace terrace::detail
