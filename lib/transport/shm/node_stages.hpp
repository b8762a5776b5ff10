#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "executor/transport.hpp"

namespace terrace {

/// Runs stages among ranks that share memory: each reduces its own shard straight from its peers' memory with one
/// k-input kernel, and copies from there what it is to get; or writes what it reduced where they want to have it, if it
/// reaches that. Ranks tell one another where they are by one number per lane slot, which only grows, and beside it
/// where their memory is: any rank's may be in a slot or in a window. Who waits polls the number, and sleeps if it
/// must.
class node_stages {
public:
    /// @param position by rank: its part of the regions; -1 if it is on another node
    /// @param arena the first region: what ranks tell one another, and the slots' memory. All zero at first.
    /// @param sleeps whether any rank of the node calls sleep(): the same on all
    node_stages(int rank, std::vector<int> position, shared_region arena, int slots, std::size_t slot_bytes,
                bool sleeps);

    /// Bytes of an arena.
    static std::size_t arena_bytes(int slots, std::size_t slot_bytes) noexcept;

    /// Bytes of a window's region that `bytes` of memory take.
    static std::size_t window_bytes(std::size_t bytes) noexcept;
    /// More memory that stages may use: the caller's part. It may be freed whatever peers still use; the region stays
    /// until all have freed theirs. All ranks add their windows in the same order.
    std::shared_ptr<std::byte> add_window(shared_region region);
    /// Whether it lies in a window as a whole.
    bool reachable(const std::byte* memory, std::size_t bytes) const noexcept;

    std::byte* lane_memory(int lane_slot, std::size_t bytes) noexcept;
    /// transport::lane_ready, transport::lane_readers
    bool lane_ready(int lane_slot) noexcept;
    std::vector<int> lane_readers(int lane_slot) const;
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
    // Where in the node's shared memory something of a rank's is: the region's number, and the offset in its part.
    using place = std::uint64_t;
    static constexpr place nowhere = ~place{0};
    static constexpr int offset_bits = 40;
    static constexpr std::uint64_t region_of(place p) noexcept { return p >> offset_bits; }
    static constexpr std::uint64_t offset_of(place p) noexcept { return p & ((place{1} << offset_bits) - 1); }

    // How far a rank is in one slot: turn, channel and progress within the stage. From its arrival on, where what it
    // gives and what it gets are, and the calls that it has completed. A vector of a few bytes is there, too: who sees
    // the ticket has it in its cache.
    struct alignas(64) cell {
        std::atomic<std::uint64_t> ticket;
        place src, dst;
        std::uint64_t through;
        std::array<std::byte, 32> few;
    };
    static_assert(sizeof(cell) == 64);
    struct alignas(64) bell {
        std::atomic<std::uint32_t> rings, asleep;
    };
    enum progress : std::uint64_t { arrived = 1, reduced = 2, finished = 3 };

    struct active {
        int slot = 0;
        const stage_call* call = nullptr;
        place src = nowhere, dst = nowhere;  // this rank's, which peers make slow to read in its cell
        progress waits_for = arrived;        // of peers
        std::size_t seen = 0;                // peers that are known to have got there
    };

    struct region {
        std::uint64_t number = 0;  // of the arena 0, of windows from 1
        shared_region memory;
        std::size_t bytes = 0;                        // of a part that may be asked for
        std::atomic<std::uint32_t>* freed = nullptr;  // how many ranks have freed their parts
        std::atomic<bool> in_use{true};               // the caller's part
    };

    // Who may still read a lane slot's memory though the stage is complete here.
    struct readers {
        std::vector<int> ranks;
        std::uint64_t ticket = 0;  // those that get there have read it
        std::uint64_t call = 0;    // and those that have completed it
        bool awaited = false;
    };

    // Who writes what of an allreduce.
    enum class sharing { none, push, pull };

    bool step(active& a) noexcept;
    bool leave(const active& a) noexcept;
    bool has_read(const readers& r, int lane_slot, int rank) const noexcept;
    bool peers_reached(active& a) noexcept;
    void learn(const active& a) noexcept;
    bool reached(const active& a, std::size_t peer) const noexcept;
    bool awaits(const active& a, std::size_t peer) const noexcept;
    std::uint64_t ticket(const stage_call& c, progress p) const noexcept;
    void announce(const stage_call& c, progress p) noexcept;

    progress work(const active& a) noexcept;
    sharing sharing_of(const active& a) const noexcept;
    void reduce(const active& a, range part, std::byte* to) noexcept;
    void reduce_for_all(const active& a, range shard) noexcept;
    void copy_from(const stage_call& c, int member, const std::byte* src) noexcept;
    std::byte* result_of(const active& a, int member) const noexcept;

    int part_of(int rank) const noexcept { return position_[static_cast<std::size_t>(rank)]; }
    cell& cell_of(int part, int lane_slot) const noexcept;
    cell& cell_of(const stage_call& c, int member) const noexcept {
        return cell_of(part_of(c.group->members[static_cast<std::size_t>(member)]), c.lane_slot);
    }
    bell& bell_of(int part) const noexcept;
    place src_of(const active& a, int member) const noexcept {
        return member == a.call->group->position ? a.src : cell_of(*a.call, member).src;
    }
    place dst_of(const active& a, int member) const noexcept {
        return member == a.call->group->position ? a.dst : cell_of(*a.call, member).dst;
    }
    place place_of(const std::byte* mine) const noexcept;
    std::byte* at(const stage_call& c, int member, place p) const noexcept;

    int me_;
    std::vector<int> position_;
    std::vector<std::shared_ptr<region>> regions_;  // by ascending number
    std::uint64_t windows_ = 0;                     // made so far
    int slots_;
    std::size_t slot_bytes_;
    bool sleeps_;
    std::vector<active> active_;
    std::vector<readers> readers_;        // by lane slot
    std::vector<std::uint64_t> through_;  // by part: calls that it is known to have completed
    std::vector<const void*> inputs_;
};

}  // namespace terrace
