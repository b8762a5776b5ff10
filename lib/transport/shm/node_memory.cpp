#include "transport/shm/node_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace::detail {

node_memory::node_memory(int part, shared_region arena, int slots, std::size_t slot_bytes)
    : part_(part), slots_(slots), slot_bytes_(slot_bytes) {
    regions_.push_back(std::make_shared<region>());
    regions_.front()->bytes = arena.bytes;
    regions_.front()->memory = std::move(arena);
}

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
    return {added->memory.parts[at(part_)], [r = added](std::byte*) {
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
        if (r->number == region_of(l)) return r->memory.parts[at(part)] + offset_of(l);
    return nullptr;
}

}  // namespace terrace::detail
