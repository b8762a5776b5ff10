#pragma once

#include <terrace/export.hpp>

#include <cstdint>
#include <span>

#include <terrace/types.hpp>

namespace terrace {

/// Reduces the vectors of all ranks serially, by the tree of options::reproducible: result[i] has the bits that any
/// communicator with this option gives. inputs[r] is the vector of rank r; of premul_sum each is multiplied already.
/// result may be an input, but not overlap one in part.
/// @param count elements of each vector   @throws usage_error if the type does not have the operation
TERRACE_API void reduce_serially(std::span<const void* const> inputs, void* result, std::int64_t count,
                                 element_type type, reduce_op op = reduce_op::sum);

}  // namespace terrace
