#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/heap.hpp"
#include "calls/call.hpp"
#include "control/call_order/signature.hpp"

namespace terrace::detail {

/// "alltoallv", "gatherv" or "scatterv".
std::string_view name_of(const uneven_blocks& b) noexcept;

/// An alltoallv, gatherv or scatterv: one call, or two calls of which the second depends on results of the first.
///
///     short blocks    [length|data......|length|data..    |...]    one alltoall of slots for the longest block
///     long blocks     [length|length|...]                          an exchange of lengths, then each block directly
///                     [data......|data..|...]                      to its rank, in its own length
///
/// The cost of short blocks is start-ups, which the plan reduces. If slots go directly to their ranks, only their used
/// part is sent, if the transport supports this. Blocks to or from a root are sent like long blocks. Programs are made,
/// kept and proved for blocks of the longest length, or for the next power of two if blocks come from a root. Programs
/// of long blocks move only the elements of each block (own_lengths).
class uneven_call : public call_work {
public:
    enum class way {
        full_slots,     ///< slots, each a length and its block
        filled_slots,   ///< the same, of which only the used part is sent
        lengths_first,  ///< lengths, then blocks
    };
    /// Maximum bytes of a filled slot. For larger slots, copies cost more than a separate exchange of lengths.
    static constexpr std::int64_t most_filled_slot = 16 * 1024;

    /// Returns the bytes of a slot, which holds a length and the longest block.
    static std::int64_t slot_of(const uneven_blocks& b) noexcept;
    /// Returns the call that exchanges lengths, for lengths_first.
    static call_shape lengths_of(const uneven_blocks& b);

    /// Makes a call. @param b valid; send_counts are read here, the buffers and recv_counts belong to the call
    /// @param w the same on all ranks; lengths_first if there is a root
    static std::unique_ptr<uneven_call> make(const uneven_blocks& b, int rank, int ranks, way w);

    /// Returns the first part. To be called before issue().
    virtual full_call first() = 0;

protected:
    uneven_call(const uneven_blocks& b, int rank, int ranks) : blocks_(b), rank_(rank), ranks_(ranks) {
        if (!row_of(b.what).gives_nothing(is_root())) send_counts_.assign(b.send_counts.begin(), b.send_counts.end());
    }

    bool is_root() const noexcept { return rank_ == blocks_.root; }

    uneven_blocks blocks_;
    std::vector<std::int64_t> send_counts_;
    int rank_, ranks_;
};

}  // namespace terrace::detail
