#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <terrace/gradients.hpp>

namespace terrace::detail {

/// Returns the bytes of a gradient in its bucket; 0 for a sparse one, which is in none.
inline std::size_t bytes_of(const gradient_parameter& p) noexcept {
    return p.row > 0 ? 0 : static_cast<std::size_t>(p.count) * size_of(p.type);
}

/// Gradients of one bucket, one after the other.
struct bucket_layout {
    element_type type = element_type::float32;
    std::int64_t count = 0;       ///< elements of all gradients
    std::vector<int> parameters;  ///< in their order in memory

    std::int64_t bytes() const noexcept { return count * static_cast<std::int64_t>(size_of(type)); }
};

/// Divides gradients among buckets of one type each. A sparse gradient has a bucket of its own.
/// @param order all parameters, in the order in which they are expected to become ready
/// @returns buckets in the order in which they are expected to be complete: by their last gradient
std::vector<bucket_layout> lay_out(std::span<const gradient_parameter> parameters, std::span<const int> order,
                                   const gradient_options& o);

/// Returns the order of a backward pass over layers that were registered from first to last.
std::vector<int> reverse_order(std::size_t parameters);

/// Returns the predicted time from the first ready gradient to the completion of the last bucket [s]. A bucket begins
/// when its gradients are ready and the bucket before is complete, since calls in flight together share the links.
/// @param order of gradients   @param ready times at which they are ready [s], by place in the order; may be shorter
/// @param predicted returns the time of an allreduce of so many bytes [s]
double predicted_end(std::span<const gradient_parameter> parameters, std::span<const int> order,
                     std::span<const double> ready, const gradient_options& sizes,
                     const std::function<double(std::int64_t)>& predicted);

/// Returns options whose bucket sizes are predicted to end first. Among sizes that end at about the same time, chooses
/// those with the fewest buckets. Returns `present` if other sizes gain nothing.
gradient_options sizes_that_end_first(std::span<const gradient_parameter> parameters, std::span<const int> order,
                                      std::span<const double> ready, const gradient_options& present,
                                      const std::function<double(std::int64_t)>& predicted);

}  // namespace terrace::detail
