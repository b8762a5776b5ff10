#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/network.hpp"

namespace terrace::detail {

/// Lowest tags: copied messages of callers (eager), and pieces of other messages of callers. Programs use the rest.
inline constexpr int eager_tag = 0, piece_tag = 1, first_program_tag = 2;

/// Transport of the programs of one communicator: messages among its ranks, and optional runners of whole stages. One
/// runner works in memory that the ranks of a node share, the other by the collectives of the library below. Used by
/// one thread at a time. Rank numbers are those of the plan: 0 ... size - 1 in the order of the hierarchy.
class endpoint {
public:
    /// Connects the ranks. Collective. @param slots maximum of messages and stages in flight   @throws transport_error
    endpoint(connection by, int slots);
    /// Adds a runner, before the first message or stage. Does nothing if the runner is null.
    void add(std::unique_ptr<node_stage_runner> node);
    void add(std::unique_ptr<stage_runner> collectives);

    /// Returns the ranks and the objects that connect them.
    connection& base() noexcept { return by_; }
    team& ranks() noexcept { return by_.ranks; }
    int rank() const noexcept { return by_.ranks.rank(); }
    int size() const noexcept { return by_.ranks.size(); }
    /// Returns the name for output, for example "shm in nodes, mpi".
    std::string name() const;
    messages& wire() noexcept { return *wire_; }

    // For programs.
    const capabilities& can() const noexcept { return can_; }
    /// Returns the runner in memory of the node; null if there is none.
    node_stage_runner* node() const noexcept { return node_.get(); }
    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept {
        ++in_flight_;
        wire_->send(slot, peer, tag, from, bytes);
    }
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept {
        ++in_flight_;
        wire_->recv(slot, peer, tag, to, bytes);
    }
    /// Returns the runner of the stages of a provider.
    stage_runner& runner(provider by) const noexcept {
        if (by == provider::mpi) return *collectives_;
        return *node_;
    }
    /// Starts a stage (stage_runner::start). The library's stages count as in flight, since only polls progress them.
    void stage(int slot, const stage_call& call) noexcept {
        if (call.by == provider::mpi) ++in_flight_;
        runner(call.by).start(slot, call);
    }

    // For the code that polls.
    /// Progresses messages and stages. Returns the slots that have completed, each once; valid until the next call.
    std::span<const int> poll() noexcept;
    /// Returns the number of unsuccessful polls before idle().
    int spin_limit() const noexcept {
        return node_ && in_flight_ == 0 && !expects_control_ ? node_->spin_limit() : wire_->traits().spin_limit;
    }
    /// Sets whether control messages are expected. If so, idle() does not sleep, since none would end the sleep.
    void expect_control(bool expects) noexcept { expects_control_ = expects; }
    /// Waits briefly for other ranks, or yields the core.
    void idle() noexcept {
        // Data and control messages need polls to progress, so this rank must not sleep while it waits for any.
        if (in_flight_ > 0 || expects_control_ || !node_ || node_->wait()) wire_->idle();
    }
    /// Returns the first failure, if any. Nothing is guaranteed to complete after a failure.
    const std::optional<transport_fault>& fault() const noexcept {
        return wire_->fault() || !collectives_ ? wire_->fault() : collectives_->fault();
    }
    /// Gives up everything in flight, after a failure. No message in flight matches one of a later endpoint. Returns
    /// false if the network may still read or write the memory of messages, which must then never be freed.
    bool abandon() noexcept {
        const bool ended = wire_->abandon();
        return (!collectives_ || collectives_->abandon()) && ended;
    }

    /// Allocates `bytes` > 0 bytes for buffers, zeroed, aligned to a cache line. Peers can access the memory if memory
    /// can be shared. The memory may outlive the endpoint. Collective. @throws memory_error, transport_error
    std::shared_ptr<std::byte> allocate(std::size_t bytes);
    /// Returns true if all bytes lie in memory of allocate() that peers can access.
    bool reachable(const void* memory, std::size_t bytes) const noexcept {
        return node_ && node_->reachable(memory, bytes);
    }

private:
    connection by_;
    std::unique_ptr<messages> wire_;
    std::unique_ptr<stage_runner> collectives_;
    std::unique_ptr<node_stage_runner> node_;
    capabilities can_;
    std::size_t in_flight_ = 0;  // messages, and stages of the library
    bool expects_control_ = false;
    std::vector<int> done_;  // slots
};

/// @throws transport_error with the failure of the endpoint, if there is one
void check_fault(const endpoint& net);

}  // namespace terrace::detail
