#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/error.hpp>
#include <terrace/types.hpp>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// What is known of the lengths of blocks.
enum class lengths : std::uint8_t {
    agreed,  ///< all ranks know all of them
    own,     ///< each rank knows those of its own blocks, of which none is longer than `count` (of an alltoall)
    skewed,  ///< the same, and most blocks are much shorter
};

/// A call, but for its addresses: what ranks must agree on.
struct call_shape {
    collective what = collective::allreduce;
    std::int64_t count = 0;            ///< elements of the vector, or of each block
    std::vector<std::int64_t> counts;  ///< of the blocks by rank, where they are given one by one; else empty
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
    int root = 0;                   ///< the caller's numbering
    bool is_barrier = false;        ///< an allreduce of one element that the caller neither gives nor gets
    std::string_view part_of = {};  ///< the function that the caller has called, where that consists of several calls
    lengths known = lengths::agreed;
    std::vector<std::int64_t> received =
        {};                                 ///< where they are not agreed: of the blocks in recv, and `counts` in send
    bool exact = false;                     ///< reduction::is_exact()
    std::vector<std::int64_t> joined = {};  ///< counts of the calls of a group that this one carries
    friend bool operator==(const call_shape&, const call_shape&) = default;

    bool has_own_lengths() const noexcept { return known != lengths::agreed; }
    /// True if each rank gives a factor of its own for its elements.
    bool multiplies() const noexcept { return row_of(what).up && op == reduce_op::premul_sum; }
    /// Returns what its program is made for: any lengths, where ranks have not agreed on them.
    call_shape of_program() const;
};

// The shapes of the public calls.

/// @param size of the vector or of each block, or the counts of all blocks
template <class Size>
call_shape transfer_of(collective what, const Size& size, element_type type, int root = 0) {
    call_shape made{.what = what, .counts = {}, .type = type, .root = root};
    if constexpr (std::integral<Size>) made.count = size;
    else made.counts.assign(size.begin(), size.end());
    return made;
}

template <class Size>
call_shape reduction_of(collective what, const Size& size, element_type type, reduction op, int root = 0) {
    call_shape made = transfer_of(what, size, type, root);
    made.op = op.op();
    made.exact = !row_of(what).has_root() && op.is_exact();
    return made;
}

// By the time that a rank knows the maximum, every rank has given its element.
inline call_shape barrier_shape() {
    call_shape made = reduction_of(collective::allreduce, 1, element_type::uint8, exact(reduce_op::max));
    made.is_barrier = true;
    return made;
}

/// Returns the name of the function that the caller has called.
constexpr std::string_view name_of(const call_shape& call) noexcept {
    return call.is_barrier ? "barrier" : !call.part_of.empty() ? call.part_of : to_string(call.what);
}

/// Returns the elements of the vector, or of all blocks together.
std::int64_t elements_of(const call_shape& call, int ranks);
inline std::int64_t bytes_of(const call_shape& call, int ranks) {
    return elements_of(call, ranks) * static_cast<std::int64_t>(size_of(call.type));
}

/// 64 bits over all of it.
std::uint64_t signature_of(const call_shape& call) noexcept;

/// "reduce of 1000 float32, sum, to rank 3", "allgather of blocks of 3 4 5 float64".
std::string describe(const call_shape& call);

/// The error of a call that is wrong in itself.
usage_error refusal_of(const call_shape& call, const std::string& objection);

/// Why the call is wrong in itself on one of `ranks` ranks, whatever the others do; empty if it is not.
std::string objection_to(const call_shape& call, int rank, int ranks, const void* send, const void* recv);

/// Checks the buffers of a call with blocks of given counts on one of `ranks` ranks.
/// @param all, own elements of the buffer of all blocks, and of the one of the rank's own block   @throws usage_error
void expect_counts(std::string_view call, std::span<const std::int64_t> counts, int rank, int ranks, std::int64_t all,
                   std::int64_t own);

/// True if buffers of a vector are right whatever else the call is. False says nothing.
inline bool are_right_buffers(const call_shape& call, const void* send, const void* recv) noexcept {
    if (row_of(call.what).blocks || call.count < 0 || send == nullptr || recv == nullptr) return false;
    if (send == recv) return true;
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.type);
    const auto from = reinterpret_cast<std::uintptr_t>(send), to = reinterpret_cast<std::uintptr_t>(recv);
    return from + bytes <= to || to + bytes <= from;
}

/// Buffers and counts of blocks whose lengths only their ranks know, by address: of alltoall, gather and scatter. A
/// rank that gives or gets its own block alone has one count; a rank that gives or gets nothing has none that are read.
struct uneven_blocks {
    collective what = collective::alltoall;
    const void* send = nullptr;
    std::span<const std::int64_t> send_counts;
    void* recv = nullptr;
    std::int64_t capacity = 0;  ///< elements of recv
    std::span<std::int64_t> recv_counts;
    std::int64_t most = 0;  ///< elements of the longest block of an alltoall
    element_type type = element_type::uint8;
    int root = 0;  ///< the caller's numbering
};

/// Why they are wrong in themselves, as above.
std::string objection_to(const uneven_blocks& b, int rank, int ranks);

}  // namespace terrace::detail
