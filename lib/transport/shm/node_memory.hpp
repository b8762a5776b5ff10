#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "transport/shared_region.hpp"

namespace terrace::detail {

inline constexpr std::size_t cache_line = 64;  ///< [bytes]

/// Memory that the ranks of one machine node share, as seen by one of them. It consists of regions: an arena, which
/// exists from the start, and windows, which are added later. Each rank has one part of every region, and can access
/// the parts of all ranks.
class node_memory {
public:
    /// A place in a rank's parts: number of the region and offset in the part. The same on all ranks.
    using location = std::uint64_t;
    static constexpr location nowhere = ~location{0};

    /// State of a rank's stage in one lane slot, for its peers. A mailbox fills one cache line, so a peer that sees the
    /// sequence number has the rest in its cache.
    struct alignas(cache_line) mailbox {
        std::atomic<std::uint64_t> sequence;  ///< turn of the slot, channel, and progress in the stage. Only grows.
        location given, result;               ///< locations of stage_call::src and dst
        std::uint64_t calls;                  ///< call_words: completed calls of the rank, and history of its call
        std::array<std::byte, 32> payload;    ///< the slot's vector, if it is no longer than this
    };
    static_assert(sizeof(mailbox) == 64);

    /// Number up to which a rank has completed all calls, and the history of the call of its current stage.
    struct call_words {
        std::uint64_t completed = 0;  ///< below 2^48
        std::uint16_t history = 0;    ///< stage_call::history

        constexpr std::uint64_t packed() const noexcept { return completed << 16 | history; }
        static constexpr call_words in(std::uint64_t word) noexcept {
            return {word >> 16, static_cast<std::uint16_t>(word)};
        }
    };

    /// Wakes a sleeping rank.
    struct alignas(64) doorbell {
        std::atomic<std::uint32_t> rings, asleep;
    };

    /// @param part number of this rank's part in all regions
    /// @param arena all zero
    node_memory(int part, shared_region arena, int slots, std::size_t slot_bytes);

    /// Return the bytes of one part of an arena, and the bytes of a part that have memory at once: all but the slots.
    static std::size_t arena_bytes(int slots, std::size_t slot_bytes) noexcept {
        return bytes_at_once(slots) + at(slots) * round_up(slot_bytes, page);
    }
    // A part of the arena has the doorbell and the mailboxes, then the slots on pages of their own.
    static std::size_t bytes_at_once(int slots) noexcept {
        return round_up(sizeof(doorbell) + at(slots) * sizeof(mailbox), page);
    }
    /// Returns the bytes of one part of a window for `bytes` bytes of the caller. The part also has a cache line for
    /// the number of ranks that have freed their parts. The number in the first part is used.
    static std::size_t window_bytes(std::size_t bytes) noexcept { return round_up(bytes, cache_line) + cache_line; }

    /// Adds a window and returns this rank's part of the window. The caller may free the part while peers still use
    /// theirs: the region stays until all ranks have freed their parts. All ranks add windows in the same order.
    std::shared_ptr<std::byte> add_window(shared_region region);
    /// Returns true if all of the memory lies in this rank's part of one window.
    bool reachable(const std::byte* memory, std::size_t bytes) const noexcept;

    /// Allocates memory for vectors of `bytes` bytes in all of this rank's slots. @throws transport_error on failure
    void take_slots(std::size_t bytes);
    /// Returns this rank's memory for a vector of `bytes` bytes in a lane slot, after take_slots().
    std::byte* slot_memory(int lane_slot, std::size_t bytes) noexcept {
        if (mailbox& box = mailbox_of(part_, lane_slot); bytes <= box.payload.size()) return box.payload.data();
        return arena_of(part_) + slot_offset(lane_slot);
    }

    mailbox& mailbox_of(int part, int lane_slot) const noexcept {
        return reinterpret_cast<mailbox*>(arena_of(part) + sizeof(doorbell))[lane_slot];
    }
    doorbell& doorbell_of(int part) const noexcept { return *reinterpret_cast<doorbell*>(arena_of(part)); }

    /// Returns the location of memory of this rank, or `nowhere`.
    location locate(const std::byte* mine) const noexcept;
    /// Returns the address of a location in a rank's part.
    std::byte* address(int part, location l) const noexcept;
    /// Returns true if the location is in the arena.
    static constexpr bool in_arena(location l) noexcept { return region_of(l) == 0; }

    int parts() const noexcept { return static_cast<int>(regions_.front()->memory.parts.size()); }

private:
    static constexpr std::size_t page = 4096;
    static constexpr int offset_bits = 40;
    static constexpr std::uint64_t region_of(location l) noexcept { return l >> offset_bits; }
    static constexpr std::uint64_t offset_of(location l) noexcept { return l & ((location{1} << offset_bits) - 1); }

    struct region {
        std::uint64_t number = 0;  // 0 for the arena, from 1 for windows
        shared_region memory;
        std::size_t bytes = 0;                        // bytes of a part that a location may name
        std::atomic<std::uint32_t>* freed = nullptr;  // number of ranks that have freed their parts
        std::atomic<bool> in_use{true};               // false once this rank has freed its part
    };

    std::byte* arena_of(int part) const noexcept { return regions_.front()->memory.parts[at(part)]; }
    // Returns the offset of a slot in a part of the arena.
    std::size_t slot_offset(int lane_slot) const noexcept {
        return bytes_at_once(slots_) + at(lane_slot) * round_up(slot_bytes_, page);
    }
    const std::byte* mine(const region& r) const noexcept { return r.memory.parts[at(part_)]; }

    int part_;
    std::vector<std::shared_ptr<region>> regions_;  // by ascending number
    std::uint64_t windows_ = 0;                     // number of windows added so far
    int slots_;
    std::size_t slot_bytes_;
    std::size_t taken_ = 0;  // bytes of each slot that have memory
};

}  // namespace terrace::detail
