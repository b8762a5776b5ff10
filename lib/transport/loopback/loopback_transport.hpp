#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/transport.hpp"

namespace terrace {

/// Ranks that are threads of one process. A message is one copy, made by the receiver once both ends are there: nothing
/// is buffered, so that what relies on buffering shows.
class loopback_world {
public:
    /// @param node_sizes ranks of each node, in order: those of one node can share memory
    /// @param device_memory what transports say they take
    explicit loopback_world(std::span<const int> node_sizes, bool device_memory = false);
    ~loopback_world();
    loopback_world(const loopback_world&) = delete;
    loopback_world& operator=(const loopback_world&) = delete;

    /// The end of one rank; used by one thread.
    std::unique_ptr<transport> join(int rank);
    /// Makes all ranks' messages fail from now on. Any thread.
    void fail(const std::string& why);

    struct state;

private:
    std::shared_ptr<state> state_;
};

}  // namespace terrace
