#pragma once

#include <cstdint>
#include <functional>

#include "bench/training/model.hpp"

namespace terrace::detail::bench {

/// Returns a lower bound of an iteration [s]: what is not ready at some time travels after it, and no faster than the
/// links allow. It is the longest of the compute time and, over all gradients k, of
///
///     time at which gradient k is ready + limit(bytes of gradient k and of all that become ready after it)
///
/// @param element bytes of one   @param limit of an allreduce of so many bytes [s]
double iteration_bound(const training_model& m, std::int64_t element, const std::function<double(std::int64_t)>& limit);

}  // namespace terrace::detail::bench
