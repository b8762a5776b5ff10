#pragma once

#include <cstdint>

#include <terrace/gradients.hpp>

#include "support/calls.hpp"

namespace terrace::detail::test {

/// A random training run.
struct gradient_run {
    std::uint64_t seed = 0;  ///< decides the model, the options and the run; equal on all ranks
    int iterations = 0;      ///< reduced iterations
};

/// Trains a random model: gradients become ready in a different order on each rank. Compares each result with a serial
/// oracle. @returns the number of wrong elements, and a digest of all results, which must be equal on all ranks
outcome train(communicator& comm, const gradient_run& run);

}  // namespace terrace::detail::test
