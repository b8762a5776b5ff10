#pragma once

#include <list>
#include <mutex>
#include <utility>

namespace terrace::detail {

/// Moves a value into an object that is never destroyed. For static variables that are used while static objects are
/// destroyed, for example in a program's MPI_Finalize.
template <class T>
T& kept_for_ever(T value) {
    return *new T(std::move(value));
}

/// Keeps a value for the rest of the process, since a network may still read or write its memory. This leaks memory on
/// purpose: the memory that a broken communicator had in use.
template <class T>
void keep_for_ever(T value) {
    static std::mutex guard;
    static auto& kept = kept_for_ever(std::list<T>());
    const std::lock_guard lock(guard);
    kept.push_back(std::move(value));
}

}  // namespace terrace::detail
