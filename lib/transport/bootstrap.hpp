#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace terrace::detail {

/// Values that ranks publish for one another while communicators are created: a store of keys, as PMIx, a directory of
/// files or a framework's store has one. Ranks are numbered 0 ... size - 1. Used by one thread at a time. `team` is
/// what the rest of Terrace uses; it adds a prefix to each key, and everything that can be said with put and get.
class bootstrap {
public:
    /// @param node names the machine node that this rank is on: ranks with equal names share memory
    explicit bootstrap(std::string node) : node_(std::move(node)) {}
    bootstrap(const bootstrap&) = delete;
    bootstrap& operator=(const bootstrap&) = delete;
    virtual ~bootstrap() = default;

    const std::string& node() const noexcept { return node_; }

    /// Publishes this rank's value under a key that none of `ranks` has used before. All of `ranks`, which this rank is
    /// one of, call it with the same list and key, and may wait for each other in it. @throws transport_error
    virtual void put(std::span<const int> ranks, std::string_view key, std::string_view value) = 0;
    /// Returns what `rank`, one of the list that this rank has put with, puts under the key; waits for it if need be.
    /// @throws transport_error
    virtual std::string get(int rank, std::string_view key) = 0;
    /// Releases a key: this rank gets no value of it any more. Others still may.
    virtual void forget(std::string_view key) noexcept = 0;

    /// Calls `look` again and again while put() or get() wait, until this is called anew; it may throw to end the wait.
    /// Null: nothing is called.
    void while_waiting(std::function<void()> look) { look_ = std::move(look); }

protected:
    bool looks() const noexcept { return look_ != nullptr; }
    void look() const {
        if (look_) look_();
    }

private:
    const std::string node_;
    std::function<void()> look_;
};

/// Returns the host's name, the kernel's name for this run of itself, and the file system of shared memory: equal where
/// two processes of one machine can share memory.
std::string this_node();

}  // namespace terrace::detail
