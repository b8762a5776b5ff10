#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/partition.hpp"
#include "transport/shm/node_memory.hpp"

namespace terrace::detail {

/// A queue of records from one rank to another, in memory that both can access. Each end has its own object. Neither
/// end waits for the other: write() refuses a record without room, and read() returns at once if there are none.
///
/// Shared memory has the counters `written` and `read`, and the records. Each counter and record has cache lines of its
/// own. A record never wraps: a record of kind `gap` fills the end of the memory.
class record_ring {
public:
    /// Header of a record. The ring itself uses only `stored`, and the kind `gap`.
    struct header {
        std::uint32_t kind = 0;  ///< defined by the caller; not `gap`
        std::int32_t tag = 0;
        std::uint32_t stored = 0;  ///< number of bytes that follow
        std::int32_t slot = 0;
        std::uint64_t bytes = 0;
    };
    static constexpr std::uint32_t gap = ~std::uint32_t{0};

    /// @param memory bytes_for(capacity) bytes on a cache line, zeroed before either end uses them
    record_ring(std::byte* memory, std::size_t capacity) noexcept
        : shared_(reinterpret_cast<counters*>(memory)), records_(memory + sizeof(counters)), capacity_(capacity) {}

    /// Returns the bytes of a ring's memory. @param capacity a multiple of the cache line
    static constexpr std::size_t bytes_for(std::size_t capacity) noexcept { return sizeof(counters) + capacity; }

    /// Appends a record, with its header at most half the capacity long. Returns false if there is no room yet.
    bool write(const header& h, const void* bytes) noexcept {
        const std::size_t needed = round_up(sizeof h + h.stored, cache_line), at = written_ % capacity_;
        const std::size_t unused = needed > capacity_ - at ? capacity_ - at : 0;
        const auto fits = [&] { return written_ + unused + needed - read_ <= capacity_; };
        if (!fits()) {
            read_ = shared_->read.load(std::memory_order_acquire);
            if (!fits()) return false;
        }
        if (unused > 0) std::memcpy(records_ + at, &gap, sizeof gap);
        std::byte* to = records_ + (unused > 0 ? 0 : at);
        std::memcpy(to, &h, sizeof h);
        if (h.stored > 0) std::memcpy(to + sizeof h, bytes, h.stored);
        written_ += unused + needed;
        shared_->written.store(written_, std::memory_order_release);
        return true;
    }

    /// Calls f(header, bytes) for all present records, in order, and removes them. Returns false if there are none.
    template <class F>
    bool read(F&& f) noexcept {
        const std::uint64_t end = shared_->written.load(std::memory_order_acquire);
        if (read_ == end) return false;
        while (read_ != end) {
            const std::byte* from = records_ + read_ % capacity_;
            header h;
            std::memcpy(&h.kind, from, sizeof h.kind);
            if (h.kind == gap) {
                read_ = round_up(read_ + 1, capacity_);
                continue;
            }
            std::memcpy(&h, from, sizeof h);
            f(h, from + sizeof h);
            read_ += round_up(sizeof h + h.stored, cache_line);
        }
        shared_->read.store(read_, std::memory_order_release);
        return true;
    }

private:
    struct counters {
        alignas(cache_line) std::atomic<std::uint64_t> written;
        alignas(cache_line) std::atomic<std::uint64_t> read;
    };

    counters* shared_;
    std::byte* records_;
    std::size_t capacity_;
    std::uint64_t written_ = 0, read_ = 0;  // the writer's `read_` may be out of date
};

}  // namespace terrace::detail
