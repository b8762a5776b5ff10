#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/network.hpp"

namespace terrace::detail {

/// The lowest tags of the wire are for messages of callers: copied ones, and pieces of others. Programs use the rest.
inline constexpr int eager_tag = 0, piece_tag = 1, first_program_tag = 2;

/// Everything that the programs of one communicator run on: messages among its ranks, and runners of whole stages where
/// there are any: one in the memory that the ranks of a node share, and one by the collectives of the library below.
/// Used by one thread at a time. Ranks are the plan's: 0 ... size - 1 in the order of the hierarchy.
class endpoint {
public:
    /// Connects the ranks. Collective. @param slots messages and stages in flight   @throws transport_error
    endpoint(connection by, int slots);
    /// Adds runners, before anything runs. Null: none.
    void add(std::unique_ptr<node_stage_runner> node);
    void add(std::unique_ptr<stage_runner> collectives);

    /// Returns the ranks, and what connects them.
    connection& base() noexcept { return by_; }
    team& ranks() noexcept { return by_.ranks; }
    int rank() const noexcept { return by_.ranks.rank(); }
    int size() const noexcept { return by_.ranks.size(); }
    /// "shm in nodes, mpi"
    std::string name() const;
    messages& wire() noexcept { return *wire_; }

    // For programs.
    const capabilities& can() const noexcept { return can_; }
    /// Returns the runner in the node's memory; null: there is none.
    node_stage_runner* node() const noexcept { return node_.get(); }
    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept {
        ++in_flight_;
        wire_->send(slot, peer, tag, from, bytes);
    }
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept {
        ++in_flight_;
        wire_->recv(slot, peer, tag, to, bytes);
    }
    /// Returns what runs the stages of a provider.
    stage_runner& runner(provider by) const noexcept {
        if (by == provider::mpi) return *collectives_;
        return *node_;
    }
    /// stage_runner::start. Somebody must look after the progress of a stage of the library.
    void stage(int slot, const stage_call& call) noexcept {
        if (call.by == provider::mpi) ++in_flight_;
        runner(call.by).start(slot, call);
    }

    // For whoever drives them.
    /// Moves messages and stages along. Returns the slots that have completed, each once; valid until the next call.
    std::span<const int> poll() noexcept;
    /// Polls in vain before idle().
    int spin_limit() const noexcept {
        return node_ && in_flight_ == 0 && !expects_control_ ? node_->spin_limit() : wire_->traits().spin_limit;
    }
    /// Says whether control messages are waited for: idle() then does not sleep, since none would end that.
    void expect_control(bool expects) noexcept { expects_control_ = expects; }
    /// Waits a moment for other ranks, or gives the core away. Returns soon.
    void idle() noexcept {
        // Messages of both kinds need somebody who looks after them.
        if (in_flight_ > 0 || expects_control_ || !node_ || node_->wait()) wire_->idle();
    }
    /// The first failure, if any. After it nothing is guaranteed to complete.
    const std::optional<transport_fault>& fault() const noexcept {
        return wire_->fault() || !collectives_ ? wire_->fault() : collectives_->fault();
    }
    /// Gives up what is in flight, after a failure, and lets no message of it meet a later endpoint. Returns false if
    /// the network may still read or write its memory, which must then never be freed.
    bool abandon() noexcept {
        const bool ended = wire_->abandon();
        return (!collectives_ || collectives_->abandon()) && ended;
    }

    /// Allocates memory for buffers of `bytes` > 0 bytes, zeroed, on a cache line, which peers reach where memory can
    /// be shared. It may outlive the endpoint. Collective. @throws memory_error, transport_error
    std::shared_ptr<std::byte> allocate(std::size_t bytes);
    /// True if all of it lies in memory of allocate() that peers reach.
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

/// @throws transport_error what the endpoint reports, if it has failed
void check_fault(const endpoint& net);

}  // namespace terrace::detail
