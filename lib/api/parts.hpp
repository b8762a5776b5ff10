#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "api/core.hpp"

namespace terrace::detail {

// Collective functions that make memory or further communicators from a communicator.

/// Allocates memory for a window. Returns null for a count of 0.
std::shared_ptr<std::byte> allocate(communicator_core& from, std::size_t count, std::size_t element);

/// Returns the communicator of the ranks with this color; null if the color is negative.
std::unique_ptr<communicator_core> split(communicator_core& from, int color, int key);

/// Returns the communicator of the ranks on this rank's machine node.
std::unique_ptr<communicator_core> split_by_node(communicator_core& from, int key);

/// Returns the communicator of the ranks that have not failed. Collective over these, after a rank_failed_error.
std::unique_ptr<communicator_core> shrink(communicator_core& from);

/// Error of calls of a communicator that is given up before all ranks have created it.
inline constexpr const char* creation_given_up = "another rank has failed while this one was created";

/// Makes a successor of the communicator on all ranks, such as one of other ranks. Waits for all ranks. Returns true if
/// all have made it; the caller then uses the successor. Returns false on all ranks if one has not; the communicator
/// stays as it was. @param make gets a function that it must call while it waits, and that may throw
/// @throws rank_failed_error on all ranks if ranks of this communicator have failed meanwhile
bool all_make(communicator_core& from, const std::function<void(const std::function<void()>& look)>& make);

}  // namespace terrace::detail
