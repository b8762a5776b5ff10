#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <variant>
#include <vector>

#include "transport/call_pieces.hpp"

namespace terrace::detail {

/// Vectors that a program with takes_pieces() treats as one vector, side by side. They replace send and recv.
struct vector_pieces {
    std::span<const call_piece> pieces;
};

/// Blocks of different lengths, for a program whose schedules move equal blocks. Each message is a block, or the part
/// of a block in one chunk.
struct own_lengths {
    std::int64_t block;  ///< elements of each block in the schedules; the last chunk moves all elements beyond
    std::span<const std::int64_t> sent, received;  ///< elements of each block in send and in recv
};

/// Blocks of which only the beginning is used, for an alltoall whose messages are whole blocks. Only the used elements
/// are sent, on networks that accept shorter messages (network_traits::takes_shorter).
struct filled_blocks {
    std::int64_t block;                    ///< elements of each block
    std::span<const std::int64_t> filled;  ///< used elements, by block
};

/// Buffers of one call, in memory of the caller. Vectors and blocks lie where the schedules expect them, unless
/// `layout` describes other places. The spans are read only while the call is issued.
struct call_buffers {
    const void* send = nullptr;
    void* recv = nullptr;  ///< may be the same
    /// If not null, a vector of the same length to which this rank adds its rounding errors: those of its
    /// contributions, and of results that it owns. Their sum over all ranks is the exact result minus the result.
    void* rounding_errors = nullptr;
    std::variant<std::monostate, vector_pieces, own_lengths, filled_blocks> layout = {};
};

/// Actual places of the blocks of a buffer, for a program that assumes blocks of equal length. The blocks lie side by
/// side, each with its own length.
///
///     schedule   | block 0    | block 1    | block 2    |
///     buffer     | 0 0 | 1 1 1 1 1 1 | 2 |
class real_blocks {
public:
    /// @param block elements of each block in the schedule, more than 0
    void assign(std::int64_t block, std::span<const std::int64_t> lengths) {
        block_ = block;
        ends_.clear();
        std::int64_t end = 0;
        for (const std::int64_t length : lengths) ends_.push_back(end += length);
    }

    /// Returns the elements of the buffer for a part of a block in a chunk's schedule.
    /// @param begin the chunk's first element of each block   @param to_the_end the chunk is the last one
    range part_of(range part, std::int64_t begin, bool to_the_end) const noexcept {
        const auto number = static_cast<std::size_t>(part.begin / block_);
        const range all{number == 0 ? 0 : ends_[number - 1], ends_[number]};
        const std::int64_t first = std::min(all.begin + begin + part.begin % block_, all.end);
        return {first, to_the_end ? all.end : std::min(first + part.count(), all.end)};
    }

private:
    std::int64_t block_ = 1;
    std::vector<std::int64_t> ends_;
};

/// Buffers of the call that a program runs. The memory is kept from one call to the next, so assign() usually allocates
/// nothing.
class program_buffers {
public:
    /// Sets the buffers of the next call.
    void assign(const call_buffers& b) {
        send_ = const_cast<std::byte*>(static_cast<const std::byte*>(b.send));
        recv_ = static_cast<std::byte*>(b.recv);
        rounding_errors_ = static_cast<std::byte*>(b.rounding_errors);
        pieces_.clear();
        filled_.clear();
        if (const auto* vectors = std::get_if<vector_pieces>(&b.layout)) {
            pieces_.assign(vectors->pieces.begin(), vectors->pieces.end());
        } else if (const auto* lengths = std::get_if<own_lengths>(&b.layout)) {
            send_blocks_.assign(lengths->block, lengths->sent);
            recv_blocks_.assign(lengths->block, lengths->received);
        } else if (const auto* blocks = std::get_if<filled_blocks>(&b.layout)) {
            block_ = blocks->block;
            filled_.assign(blocks->filled.begin(), blocks->filled.end());
        }
    }

    std::byte* send() const noexcept { return send_; }  ///< read-only
    std::byte* recv() const noexcept { return recv_; }
    std::byte* rounding_errors() const noexcept { return rounding_errors_; }
    /// Returns the vectors that replace send and recv; empty if there are none.
    const std::vector<call_piece>& pieces() const noexcept { return pieces_; }
    /// Returns the places of blocks of different lengths, in send or in recv.
    const real_blocks& blocks_of(bool sends) const noexcept { return sends ? send_blocks_ : recv_blocks_; }

    /// Returns the number of bytes to send of a segment of a message. The receiver expects all segments; the last ones
    /// may be empty. @param first element of the message   @param offset of the segment in the message [bytes]
    std::size_t filled_bytes(std::int64_t first, std::size_t element, std::size_t offset,
                             std::size_t bytes) const noexcept {
        if (filled_.empty()) return bytes;
        const auto filled = static_cast<std::size_t>(filled_[static_cast<std::size_t>(first / block_)]);
        return std::min(std::max(filled * element, offset) - offset, bytes);
    }

    /// Copies a part of the vector that the pieces form.
    void copy_given_pieces(std::byte* to, range part, std::size_t element) const noexcept {
        for_each_piece(pieces_, part, [&](range some, const call_piece& p, std::int64_t first) {
            const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * element; };
            std::memcpy(to, p.given + bytes(first), bytes(some.count()));
            to += bytes(some.count());
        });
    }

private:
    std::byte *send_ = nullptr, *recv_ = nullptr, *rounding_errors_ = nullptr;
    real_blocks send_blocks_, recv_blocks_;
    std::vector<call_piece> pieces_;
    std::int64_t block_ = 1;
    std::vector<std::int64_t> filled_;  // used elements of each block; empty: all blocks are full
};

}  // namespace terrace::detail
