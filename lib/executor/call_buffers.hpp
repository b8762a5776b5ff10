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

/// Vectors side by side instead of one, in the place of send and recv: of a program that takes_pieces().
struct vector_pieces {
    std::span<const call_piece> pieces;
};

/// Blocks of lengths of their own, of a program whose schedules move equal ones. Each message is a block, or what a
/// chunk has of it.
struct own_lengths {
    std::int64_t block;  ///< elements of each block in the schedules; the last chunk moves what is beyond that
    std::span<const std::int64_t> sent, received;  ///< elements of the blocks as they stand in send and recv
};

/// Blocks of which only the beginning is used, of a program of an alltoall whose messages are whole blocks. No more is
/// sent, on networks that take shorter messages (network_traits::takes_shorter).
struct filled_blocks {
    std::int64_t block;                    ///< elements of each block
    std::span<const std::int64_t> filled;  ///< of these, by block
};

/// The buffers of one call, as its caller holds them. Vectors and blocks stand where the schedules say, but for what
/// `layout` says. What spans refer to is read while the call is issued.
struct call_buffers {
    const void* send = nullptr;
    void* recv = nullptr;  ///< may be the same
    /// If not null, elements as the vector's, to which is added what this rank rounds away: of contributions, and of
    /// results that it owns. Over all ranks it is what the result lacks.
    void* rounding_errors = nullptr;
    std::variant<std::monostate, vector_pieces, own_lengths, filled_blocks> layout = {};
};

/// Where the blocks of a buffer really are, for a program that takes all of them for equally long: they stand side by
/// side, each as long as it is.
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

    /// Returns the elements of the buffer that a part of a block in a chunk's schedule stands for.
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

/// The buffers of the call that a program runs. It keeps its memory from one call to the next, so that taking those of
/// another call allocates nothing as a rule.
class program_buffers {
public:
    /// Takes the buffers of a call.
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

    std::byte* send() const noexcept { return send_; }  ///< only read
    std::byte* recv() const noexcept { return recv_; }
    std::byte* rounding_errors() const noexcept { return rounding_errors_; }
    /// Returns the vectors that stand in the place of send and recv; empty: none do.
    const std::vector<call_piece>& pieces() const noexcept { return pieces_; }
    /// Returns where blocks of lengths of their own are, in send or in recv.
    const real_blocks& blocks_of(bool sends) const noexcept { return sends ? send_blocks_ : recv_blocks_; }

    /// Returns how many bytes of a segment of a message are sent. The receiver expects all segments, of which the last
    /// ones may be empty. @param first element of the message   @param offset of the segment in it [bytes]
    std::size_t filled_bytes(std::int64_t first, std::size_t element, std::size_t offset,
                             std::size_t bytes) const noexcept {
        if (filled_.empty()) return bytes;
        const auto filled = static_cast<std::size_t>(filled_[static_cast<std::size_t>(first / block_)]);
        return std::min(std::max(filled * element, offset) - offset, bytes);
    }

    /// Copies a part of the vector that pieces make up.
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
    std::vector<std::int64_t> filled_;  // elements that each block holds; empty: all are full
};

}  // namespace terrace::detail
