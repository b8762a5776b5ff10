#pragma once

#include <cstdint>

#include <terrace/gradients.hpp>

#include "support/calls.hpp"

namespace terrace::detail::test {

/// What a random training run may do beside reducing every gradient in every iteration.
struct gradient_run {
    std::uint64_t seed = 0;  ///< decides the model, the options, and what happens; the same on all ranks
    int iterations = 0;      ///< that are reduced
};

/// Trains a random model: each rank says in an order of its own that gradients are ready. Compares each result with
/// what a serial oracle says. @returns elements that are wrong, and a digest of all results, which ranks share
outcome train(communicator& comm, const gradient_run& run);

}  // namespace terrace::detail::test
