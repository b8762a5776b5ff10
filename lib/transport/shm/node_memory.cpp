#include "transport/shm/node_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t page = 4096;

// A part of the arena: the doorbell and the mailboxes, then on pages of their own the slots.
std::size_t header_bytes(int slots) noexcept {
    return round_up(sizeof(node_memory::doorbell) + static_cast<std::size_t>(slots) * sizeof(node_memory::mailbox),
                    page);
}

}  // namespace

node_memory::node_memory(int part, shared_region arena, int slots, std::size_t slot_bytes)
    : part_(part), slots_(slots), slot_bytes_(slot_bytes) {
    regions_.push_back(std::make_shared<region>());
    regions_.front()->bytes = arena.bytes;
    regions_.front()->memory = std::move(arena);
}

std::size_t node_memory::arena_bytes(int slots, std::size_t slot_bytes) noexcept {
    return header_bytes(slots) + static_cast<std::size_t>(slots) * round_up(slot_bytes, page);
}

std::size_t node_memory::bytes_at_once(int slots) noexcept { return header_bytes(slots); }

void node_memory::take_slots(std::size_t bytes) {
    const std::size_t wanted = round_up(bytes, page);
    const auto& take = regions_.front()->memory.take;
    if (wanted <= taken_ || bytes <= mailbox{}.payload.size()) return;
    for (int slot = 0; take && slot < slots_; ++slot)
        if (const int code = take(slot_offset(slot) + taken_, wanted - taken_); code != 0)
            throw transport_error(
                "shm", "posix_fallocate", code,
                fmt::format("no memory in /dev/shm for {} slots of {} bytes: {}{}", slots_, wanted, std::strerror(code),
                            code == ENOSPC ? "; enlarge it (terrace doctor says how)" : ""));
    taken_ = wanted;
}

// The memory, and a cache line for the count of ranks that have freed theirs. That in the first part counts.
std::size_t node_memory::window_bytes(std::size_t bytes) noexcept { return round_up(bytes, cache_line) + cache_line; }

node_memory::doorbell& node_memory::doorbell_of(int part) const noexcept {
    return *reinterpret_cast<doorbell*>(regions_.front()->memory.parts[static_cast<std::size_t>(part)]);
}

node_memory::mailbox& node_memory::mailbox_of(int part, int lane_slot) const noexcept {
    return reinterpret_cast<mailbox*>(regions_.front()->memory.parts[static_cast<std::size_t>(part)] +
                                      sizeof(doorbell))[lane_slot];
}

std::size_t node_memory::slot_offset(int lane_slot) const noexcept {
    return header_bytes(slots_) + static_cast<std::size_t>(lane_slot) * round_up(slot_bytes_, page);
}

std::byte* node_memory::slot_memory(int lane_slot, std::size_t bytes) noexcept {
    if (mailbox& box = mailbox_of(part_, lane_slot); bytes <= box.payload.size()) return box.payload.data();
    return regions_.front()->memory.parts[static_cast<std::size_t>(part_)] + slot_offset(lane_slot);
}

std::shared_ptr<std::byte> node_memory::add_window(shared_region memory) {
    std::erase_if(regions_, [](const std::shared_ptr<region>& r) {
        return r->freed != nullptr && r->freed->load(std::memory_order_acquire) == r->memory.parts.size();
    });
    const auto added = std::make_shared<region>();
    added->number = ++windows_;
    added->bytes = memory.bytes - cache_line;
    added->freed = reinterpret_cast<std::atomic<std::uint32_t>*>(memory.parts.front() + added->bytes);
    added->memory = std::move(memory);
    regions_.push_back(added);
    return {added->memory.parts[static_cast<std::size_t>(part_)], [r = added](std::byte*) {
                r->in_use.store(false, std::memory_order_relaxed);
                r->freed->fetch_add(1, std::memory_order_acq_rel);
            }};
}

bool node_memory::reachable(const std::byte* memory, std::size_t bytes) const noexcept {
    return std::any_of(regions_.begin() + 1, regions_.end(), [&](const std::shared_ptr<region>& r) {
        return memory >= mine(*r) && memory + bytes <= mine(*r) + r->bytes && r->in_use.load(std::memory_order_relaxed);
    });
}

node_memory::location node_memory::locate(const std::byte* memory) const noexcept {
    for (const std::shared_ptr<region>& r : regions_)
        if (memory >= mine(*r) && memory < mine(*r) + r->bytes)
            return r->number << offset_bits | static_cast<std::uint64_t>(memory - mine(*r));
    return nowhere;
}

std::byte* node_memory::address(int part, location l) const noexcept {
    for (const std::shared_ptr<region>& r : regions_)
        if (r->number == region_of(l)) return r->memory.parts[static_cast<std::size_t>(part)] + offset_of(l);
    return nullptr;
}

}  // namespace terrace::detail
