#pragma once

#include <functional>
#include <optional>
#include <string>

namespace terrace {

/// Values by key, which all ranks of a job reach: where ranks without MPI find one another. A framework's store, a
/// database or a directory will do; what former jobs have left there is ignored. The functions may throw. They are
/// called by the thread that creates a communicator, or makes one of its parts; by one at a time.
struct store {
    int rank = 0;  ///< this process: 0 ... size - 1
    int size = 1;
    /// Publishes a value; replaces that of the same key.
    std::function<void(const std::string& key, const std::string& value)> put;
    /// Returns the value of a key, nothing where there is none yet. Does not wait.
    std::function<std::optional<std::string>(const std::string& key)> get;
    /// Removes a value. Optional.
    std::function<void(const std::string& key)> remove = {};
};

}  // namespace terrace
