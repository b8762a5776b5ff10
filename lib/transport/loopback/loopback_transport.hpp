#pragma once

#include <memory>
#include <span>
#include <string>

#include "transport/network.hpp"

namespace terrace::detail {

/// Ranks that are threads of one process. A message is one copy, which the receiver makes once both ends are posted.
/// Nothing is buffered, so code that relies on buffering fails here.
class loopback_world {
public:
    /// @param node_sizes number of ranks of each node, in order; ranks of one node can share memory
    /// @param device_memory true if messages may lie in memory of a GPU
    explicit loopback_world(std::span<const int> node_sizes, bool device_memory = false);
    loopback_world(const loopback_world&) = delete;
    loopback_world& operator=(const loopback_world&) = delete;

    /// Returns the connection of a rank, for one thread.
    connection join(int rank);
    /// Returns only the bootstrap of a rank.
    std::shared_ptr<bootstrap> boot(int rank) const;
    /// Makes messages and set-up of all ranks fail from now on. Any thread may call this.
    void fail(const std::string& why);

    struct state;

private:
    std::shared_ptr<state> state_;
};

}  // namespace terrace::detail
