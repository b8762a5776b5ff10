#pragma once

#include <span>
#include <string>
#include <vector>

#include <terrace/gradients.hpp>

namespace terrace::detail {

/// What a rank is about to do, to be compared with what the other ranks are.
struct described {
    std::vector<std::string> lines;  ///< one for each thing that must be the same on all ranks
    std::string objection;           ///< why this rank refuses; empty if it does not
};

/// Compares the lines over all ranks. Costs one allgather of 8 bytes where they are equal. Collective.
/// @param call for messages @throws usage_error on all ranks, with the same message, naming the first rank that refuses
/// or differs from rank 0, and the first line
void expect_same_lines(communicator& comm, const char* call, const described& mine);

/// What ranks must agree on to make a reducer, and what is wrong with it.
described describe(std::span<const gradient_parameter> parameters, const gradient_options& o);

/// What ranks must agree on to broadcast state, and what is wrong with it.
described describe(std::span<const state_tensor> tensors, int root, int ranks);

}  // namespace terrace::detail
