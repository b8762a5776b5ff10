#pragma once

#include <string>
#include <vector>

#include <terrace/communicator.hpp>

namespace terrace::detail::test {

/// Colors and keys of a split, by rank.
struct split_case {
    std::string name;
    std::vector<int> colors, keys;
};

/// Returns splits into halves, odd and even ranks, one rank alone, every rank alone, backwards, with some left out.
std::vector<split_case> split_cases(int ranks);

/// Splits, and checks ranks, order and results of all collectives on the parts, on parts of parts, and on the whole in
/// between. Returns what is wrong on this rank, if anything.
std::string trouble_with_split(communicator& comm, const split_case& how);

}  // namespace terrace::detail::test
