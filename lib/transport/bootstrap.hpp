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

/// Function that a rank calls repeatedly while it waits for others; may throw to end the wait. May be null.
using wait_hook = std::function<void()>;

/// Exchange of values between ranks while communicators are created: over PMIx, MPI, a directory of files or a
/// framework's store. Ranks are numbered 0 ... size - 1. Any number of threads of a rank may exchange values at the
/// same time. The rest of Terrace uses `team`, which makes the keys.
class bootstrap {
public:
    /// @param node name of this rank's machine node; ranks with equal names share memory
    /// @param world_ranks numbers in the whole job, by rank, for error messages; empty: the numbers are equal
    explicit bootstrap(std::string node, std::vector<int> world_ranks = {})
        : node_(std::move(node)), world_ranks_(std::move(world_ranks)) {}
    bootstrap(const bootstrap&) = delete;
    bootstrap& operator=(const bootstrap&) = delete;
    virtual ~bootstrap() = default;

    const std::string& node() const noexcept { return node_; }
    const std::vector<int>& world_ranks() const noexcept { return world_ranks_; }

    /// Returns the values of `ranks`, in their order. These ranks include this one. All of them call with the same list
    /// and the same key, which is new to all. @throws transport_error, timeout_error, and any exception of `look`
    virtual std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                              const wait_hook& look) = 0;

protected:
    /// Calls `look` with the lock released, since other threads of the rank may wait for the lock.
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

/// Returns the boot id of the kernel, the file system of shared memory and the host name. Texts are equal if two
/// processes of one machine can share memory.
std::string this_node();
/// Describes ranks of one machine that cannot share memory, as in containers; empty if there are none.
/// @param nodes this_node() of each rank
std::string memory_apart(std::span<const std::string> nodes);

}  // namespace terrace::detail
