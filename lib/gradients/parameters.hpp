#pragma once

#include <span>
#include <string>
#include <vector>

#include <terrace/gradients.hpp>

namespace terrace::detail {

/// Description of a rank's operation, to be compared with those of the other ranks.
struct described {
    std::vector<std::string> lines;  ///< one for each property that must be the same on all ranks
    std::string objection;           ///< why this rank refuses; empty if it does not
};

/// Compares the lines over all ranks. Costs one allgather of 8 bytes if they are equal. Collective.
/// @param call for messages @throws usage_error on all ranks with the same message, which names the first rank that
/// refuses or differs from rank 0, and the first line that differs
void expect_same_lines(communicator& comm, const char* call, const described& mine);

/// Describes the properties of a reducer that ranks must agree on, and the first error in them.
described describe(std::span<const gradient_parameter> parameters, const gradient_options& o);

/// Describes the properties of a broadcast of state that ranks must agree on, and the first error in them.
described describe(std::span<const state_tensor> tensors, int root, int ranks);

}  // namespace terrace::detail
