#pragma once

#include <list>
#include <mutex>
#include <utility>

namespace terrace::detail {

/// Returns the place of a value that is never destroyed: for a static variable that is used by what runs when static
/// objects are destroyed, such as a program's MPI_Finalize.
template <class T>
T& kept_for_ever(T value) {
    return *new T(std::move(value));
}

/// Moves a value to a place where it stays for the rest of the process, since a network may still read or write memory
/// that it owns. This leaks memory on purpose: what one broken communicator had in use.
template <class T>
void keep_for_ever(T value) {
    static std::mutex guard;
    static auto& kept = kept_for_ever(std::list<T>());
    const std::lock_guard lock(guard);
    kept.push_back(std::move(value));
}

}  // namespace terrace::detail
