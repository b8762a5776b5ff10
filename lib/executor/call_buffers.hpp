#pragma once

#include <cstdint>
#include <span>
#include <variant>

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

}  // namespace terrace::detail
