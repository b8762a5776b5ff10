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

/// Knowledge of ranks about the lengths of blocks.
enum class lengths : std::uint8_t {
    agreed,  ///< all ranks know all lengths
    own,     ///< each rank knows the lengths of its own blocks; in an alltoall, none exceeds `count`
    skewed,  ///< as `own`, and most blocks are much shorter than the longest one
};

/// A call without its addresses: the arguments that must agree between ranks.
struct call_shape {
    collective what = collective::allreduce;
    std::int64_t count = 0;            ///< elements of the vector, or of each block
    std::vector<std::int64_t> counts;  ///< elements of each block, by rank, if they are given one by one; else empty
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
    int root = 0;                   ///< in the caller's numbering
    bool is_barrier = false;        ///< an allreduce of one element that is not the caller's
    std::string_view part_of = {};  ///< function that the caller has called, if it consists of several calls
    lengths known = lengths::agreed;
    std::vector<std::int64_t> received = {};  ///< if not agreed: elements of blocks in recv; `counts`: in send
    bool exact = false;                       ///< reduction::is_exact()
    std::vector<std::int64_t> joined = {};    ///< counts of the calls of a group that are joined to this call
    friend bool operator==(const call_shape&, const call_shape&) = default;

    bool has_own_lengths() const noexcept { return known != lengths::agreed; }
    /// Returns true if each rank has its own factor for its elements.
    bool multiplies() const noexcept { return row_of(what).up && op == reduce_op::premul_sum; }
    /// Returns the shape of its program, which serves any lengths if ranks have not agreed on them.
    call_shape of_program() const;
};

// The shapes of the public calls.

/// @param size elements of the vector or of each block, or the counts of all blocks
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

// When a rank knows the maximum, every rank has sent its element, and so has entered the barrier.
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

/// Returns a hash of 64 bits over all that must agree between ranks.
std::uint64_t signature_of(const call_shape& call) noexcept;

/// Returns a text such as "reduce of 1000 float32, sum, to rank 3" or "allgather of blocks of 3 4 5 float64".
std::string describe(const call_shape& call);

/// Returns the error of an invalid call.
usage_error refusal_of(const call_shape& call, const std::string& objection);

/// Returns why the call is invalid on one of `ranks` ranks, whatever the others call; empty if it is valid.
std::string objection_to(const call_shape& call, int rank, int ranks, const void* send, const void* recv);

/// Checks the buffers of a call with blocks of given counts on one of `ranks` ranks.
/// @param all, own elements of the buffer of all blocks, and of the buffer of the rank's own block @throws usage_error
void expect_counts(std::string_view call, std::span<const std::int64_t> counts, int rank, int ranks, std::int64_t all,
                   std::int64_t own);

/// Returns true if buffers of a vector are valid, whatever else the call is. After false they may still be valid.
inline bool are_right_buffers(const call_shape& call, const void* send, const void* recv) noexcept {
    if (row_of(call.what).blocks || call.count < 0 || send == nullptr || recv == nullptr) return false;
    if (send == recv) return true;
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.type);
    const auto from = reinterpret_cast<std::uintptr_t>(send), to = reinterpret_cast<std::uintptr_t>(recv);
    return from + bytes <= to || to + bytes <= from;
}

/// Untyped buffers and counts of an alltoallv, gatherv or scatterv, whose block lengths only their ranks know. A rank
/// that sends or receives only its own block has one count. Without data to send or receive, no counts are read.
struct uneven_blocks {
    collective what = collective::alltoall;
    const void* send = nullptr;
    std::span<const std::int64_t> send_counts;
    void* recv = nullptr;
    std::int64_t capacity = 0;  ///< elements of recv
    std::span<std::int64_t> recv_counts;
    std::int64_t most = 0;  ///< elements of the longest block of an alltoall
    element_type type = element_type::uint8;
    int root = 0;  ///< in the caller's numbering
};

/// Returns why the buffers and counts are invalid on one of `ranks` ranks; empty if they are valid.
std::string objection_to(const uneven_blocks& b, int rank, int ranks);

}  // namespace terrace::detail
