#pragma once

#include <string>
#include <vector>

#include <terrace/communicator.hpp>

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

}  // namespace terrace::detail
