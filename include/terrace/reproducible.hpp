#pragma once

#include <terrace/export.hpp>

#include <cstdint>
#include <span>

#include <terrace/types.hpp>

namespace terrace {

/// Reduces the vectors of all ranks serially, by the tree of options::reproducible. result[i] has the same bits as on
/// any communicator with this option. inputs[r] is the vector of rank r; for premul_sum, already multiplied by its
/// factor. result may be one of the inputs, but must not overlap one partly.
/// @param count elements of each vector   @throws usage_error if the operation is not defined for the type
TERRACE_API void reduce_serially(std::span<const void* const> inputs, void* result, std::int64_t count,
                                 element_type type, reduce_op op = reduce_op::sum);

}  // namespace terrace
