#pragma once

#include <memory>
#include <span>
#include <string>

#include "transport/network.hpp"

namespace terrace::detail {

/// Ranks that are threads of one process. A message is one copy, made by the receiver once both ends are there: nothing
/// is buffered, so that code that relies on buffering fails here.
class loopback_world {
public:
    /// @param node_sizes ranks of each node, in order: those of one node can share memory
    /// @param device_memory whether messages may lie in memory of a GPU
    explicit loopback_world(std::span<const int> node_sizes, bool device_memory = false);
    loopback_world(const loopback_world&) = delete;
    loopback_world& operator=(const loopback_world&) = delete;

    /// Returns one rank's connection, for one thread.
    connection join(int rank);
    /// Returns the bootstrap of one rank alone.
    std::shared_ptr<bootstrap> boot(int rank) const;
    /// Makes all ranks' messages and set-up fail from now on. Any thread.
    void fail(const std::string& why);

    struct state;

private:
    std::shared_ptr<state> state_;
};

}  // namespace terrace::detail
