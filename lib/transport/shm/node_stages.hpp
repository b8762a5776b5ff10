#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "executor/transport.hpp"

namespace terrace {

/// Runs stages among ranks that share memory: each reduces its own shard straight from its peers' memory with one
/// k-input kernel, and copies from there what it is to get. Ranks tell one another where they are by one number per
/// lane slot, which only grows; who waits polls it, and sleeps if it must.
class node_stages {
public:
    /// @param position by rank: its part of the regions; -1 if it is on another node
    /// @param arena the first region: what ranks tell one another, and the slots' memory. All zero at first.
    node_stages(int rank, std::vector<int> position, shared_region arena, int slots, std::size_t slot_bytes);

    /// Bytes of an arena.
    static std::size_t arena_bytes(int slots, std::size_t slot_bytes) noexcept;

    /// More memory that stages may use.
    void add(shared_region more);
    /// Memory that is no longer used; `part` is the caller's.
    void remove(const std::byte* part) noexcept;
    /// Whether it lies in shared memory as a whole.
    bool holds(const std::byte* memory, std::size_t bytes) const noexcept;

    std::span<std::byte> lane_memory(int lane_slot) noexcept;
    void start(int slot, const stage_call& call) noexcept;
    /// Does what can be done and appends the slots of stages that are complete.
    void poll(std::vector<int>& done) noexcept;
    /// The ranks that the stage in a slot waits for.
    std::vector<int> missing(int slot) const;
    void reserve(std::size_t stages) { active_.reserve(stages); }
    bool idle() const noexcept { return active_.empty(); }
    /// Sleeps until a peer gets further, or for a short time. False if it did not sleep since there is something to do.
    bool sleep() noexcept;

private:
    // How far a rank is in one slot: turn, channel and progress within the stage.
    struct alignas(64) cell {
        std::atomic<std::uint64_t> ticket;
    };
    struct alignas(64) bell {
        std::atomic<std::uint32_t> rings, asleep;
    };
    enum progress : std::uint64_t { arrived = 1, reduced = 2, finished = 3 };

    struct active {
        int slot = 0;
        stage_call call;
        progress waits_for = arrived;  // of peers
        std::size_t seen = 0;          // peers that are known to have got there
    };

    bool step(active& a) noexcept;
    bool peers_reached(active& a) noexcept;
    bool reached(const active& a, std::size_t peer) const noexcept;
    bool awaits(const active& a, std::size_t peer) const noexcept;
    std::uint64_t ticket(const stage_call& c, progress p) const noexcept;
    void announce(const stage_call& c, progress p) noexcept;

    void reduce_shard(const stage_call& c, range shard, const std::byte* to) noexcept;
    void copy_from(const stage_call& c, int member, range part) noexcept;
    progress work(const stage_call& c) noexcept;

    int part_of(int rank) const noexcept { return position_[static_cast<std::size_t>(rank)]; }
    cell& cell_of(int part, int lane_slot) const noexcept;
    bell& bell_of(int part) const noexcept;
    const std::byte* at_peer(int part, const std::byte* mine) const noexcept;

    int me_;
    std::vector<int> position_;
    std::vector<shared_region> regions_;
    int slots_;
    std::size_t slot_bytes_;
    std::vector<active> active_;
    std::vector<const void*> inputs_;
};

}  // namespace terrace
