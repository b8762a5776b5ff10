#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <terrace/gradients.hpp>

#include "support/calls.hpp"

namespace terrace::detail::test {

/// A parameter with a sparse gradient.
inline gradient_parameter embedding(std::string name, std::int64_t rows, std::int64_t row, element_type type) {
    return {std::move(name), rows * row, type, nullptr, row};
}

/// Trains two embeddings between dense parameters, with random rows, which are ready in a different order on each rank;
/// some iterations are local. Compares each result with a serial oracle.
/// @param seed the same on all ranks   @returns the number of wrong rows and values, and a digest of all results
outcome train_sparse(communicator& comm, std::uint64_t seed, int turns);

}  // namespace terrace::detail::test
