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

/// An alltoallv, gatherv or scatterv: one or two calls, of which the second needs what has come of the first.
///
///     short blocks    [length|data......|length|data..    |...]    one alltoall of slots that hold the longest
///     long blocks     [length|length|...]                          an exchange of lengths, then each block straight
///                     [data......|data..|...]                      to its rank, as long as it is
///
/// Start-ups are what short blocks cost, and the plan saves them. Where slots go straight to their ranks, no more is
/// sent than there is, if the transport has such messages. To or from a root blocks go as long ones do.
/// Programs are made, kept and proved for blocks of the longest length, and from a root for the next power of two;
/// those of long blocks move of each what there is (own_lengths).
class uneven_call : public call_work {
public:
    enum class way {
        full_slots,     ///< blocks behind their lengths
        filled_slots,   ///< the same, of which no more is sent than there is
        lengths_first,  ///< lengths, and then blocks
    };
    /// Slots of more bytes do not go filled: copying costs more than what lengths cost that go first.
    static constexpr std::int64_t most_filled_slot = 16 * 1024;

    /// Returns the elements of a block, as bytes, that holds the longest one behind its length.
    static std::int64_t slot_of(const uneven_blocks& b) noexcept;
    /// Returns the call by which ranks learn lengths where these go first.
    static call_shape lengths_of(const uneven_blocks& b);

    /// Makes one. @param b right in itself; send_counts are read here, the buffers and recv_counts belong to the call
    /// @param w the same on all ranks; lengths_first where there is a root
    static std::unique_ptr<uneven_call> make(const uneven_blocks& b, int rank, int ranks, way w);

    /// Returns the part to make first. Before issue().
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
