#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "api/core.hpp"

namespace terrace::detail {

// What all ranks of a communicator make from it together. All are collective.

/// Allocates memory for windows; null for a count of 0.
std::shared_ptr<std::byte> allocate(communicator_core& from, std::size_t count, std::size_t element);

/// Returns the communicator of the ranks with this color; null where the color is negative.
std::unique_ptr<communicator_core> split(communicator_core& from, int color, int key);

/// Returns the communicator of the ranks on this rank's machine node.
std::unique_ptr<communicator_core> split_by_node(communicator_core& from, int key);

/// Returns the communicator of the ranks that have not failed. Collective over these, after rank_failed_error.
std::unique_ptr<communicator_core> shrink(communicator_core& from);

/// What calls of a communicator throw that is given up before all ranks have it.
inline constexpr const char* creation_given_up = "another rank has failed while this one was created";

/// Lets all ranks make something together that the communicator gives way to, such as one of other ranks. Waits until
/// all have, and returns true if so; the caller then goes on with that. Returns false on all ranks if any has not, and
/// the communicator is as before. @param make gets what it must call while it waits, which may throw
/// @throws rank_failed_error on all ranks if ranks of this communicator have failed meanwhile
bool all_make(communicator_core& from, const std::function<void(const std::function<void()>& look)>& make);

}  // namespace terrace::detail
