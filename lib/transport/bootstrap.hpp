#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/at_end.hpp"

namespace terrace::detail {

/// What a rank does again and again while it waits for others; it may throw to end the wait. Null: nothing.
using wait_hook = std::function<void()>;

/// Values that ranks exchange while communicators are created, by way of PMIx, MPI, a directory of files or a
/// framework's store. Ranks are numbered 0 ... size - 1. Any number of threads of a rank exchange values at the same
/// time. `team` is what the rest of Terrace uses; it makes the keys.
class bootstrap {
public:
    /// @param node names the machine node that this rank is on: ranks with equal names share memory
    /// @param world_ranks by rank: its number in the whole job, for messages; empty: the same
    explicit bootstrap(std::string node, std::vector<int> world_ranks = {})
        : node_(std::move(node)), world_ranks_(std::move(world_ranks)) {}
    bootstrap(const bootstrap&) = delete;
    bootstrap& operator=(const bootstrap&) = delete;
    virtual ~bootstrap() = default;

    const std::string& node() const noexcept { return node_; }
    const std::vector<int>& world_ranks() const noexcept { return world_ranks_; }

    /// Returns the value of each of `ranks`, in their order. All of these, which this rank is one of, call it with the
    /// same list, and with a key that none of them has used before. @throws transport_error, and what `look` throws
    virtual std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                              const wait_hook& look) = 0;

protected:
    /// Calls `look` without a lock, which other threads of the rank wait for.
    static void call_unlocked(std::unique_lock<std::mutex>& held, const wait_hook& look) {
        if (!look) return;
        held.unlock();
        const at_end again([&] { held.lock(); });
        look();
    }

private:
    const std::string node_;
    const std::vector<int> world_ranks_;
};

/// Returns the kernel's name for this run of itself, the file system of shared memory, and the host's name: equal where
/// two processes of one machine can share memory.
std::string this_node();
/// Returns in words who of these nodes' ranks run on one machine without sharing its memory, as in containers; empty:
/// nobody does. @param nodes names of this_node(), by rank
std::string memory_apart(std::span<const std::string> nodes);

}  // namespace terrace::detail
