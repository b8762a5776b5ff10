#pragma once

#include <functional>
#include <optional>
#include <string>

namespace terrace {

/// A key-value store that all ranks of a job reach, in which ranks without MPI find one another: a framework's store, a
/// database or a directory. Values left by earlier jobs are ignored. The functions may throw. They are called by the
/// thread that creates a communicator or one of its parts, one thread at a time.
struct store {
    int rank = 0;  ///< number of this process, 0 ... size - 1
    int size = 1;  ///< number of processes
    /// Sets the value of a key; replaces an earlier one.
    std::function<void(const std::string& key, const std::string& value)> put;
    /// Returns the value of a key; nothing if there is none yet. Does not wait.
    std::function<std::optional<std::string>(const std::string& key)> get;
    /// Removes a key. Optional.
    std::function<void(const std::string& key)> remove = {};
};

}  // namespace terrace
