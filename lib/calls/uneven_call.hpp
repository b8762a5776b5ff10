#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
/// Of short ones start-ups are what counts, and the plan saves them. Where slots go straight to their ranks, no more is
/// sent than there is, if the transport has such messages. To or from a root blocks go as long ones do.
/// Programs are made, kept and proved for blocks of the longest length, and from a root for the next power of two;
/// those of long blocks move of each what there is (own_lengths).
class uneven_call final : public call_work {
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

    /// @param b right in itself; send_counts are read here, the buffers and recv_counts belong to the call
    /// @param w the same on all ranks; lengths_first where there is a root
    uneven_call(const uneven_blocks& b, int rank, int ranks, way w);

    /// Returns the part to make first. Before begin().
    call_part first();
    std::uint64_t begin(call_runner& runner, const call_shape& call) override;
    rest left() const noexcept override { return has_more_ ? rest::another_part : rest::an_end; }
    /// Returns the second part; at the end what came is where it belongs. @throws usage_error where recv has no room
    std::optional<call_part> go_on() override;

private:
    call_part lengths_part();
    call_part slots_part();
    call_part second();
    void pack();
    void unpack();
    lengths take_lengths();
    std::int64_t block_of_program() const;

    uneven_blocks blocks_;
    std::vector<std::int64_t> send_counts_;
    bool is_root_;
    int ranks_;
    way way_;
    bool has_more_;
    call_buffers now_;  // of the part to begin
    std::vector<std::int64_t> filled_;
    std::int64_t came_ = 0;                   // elements
    std::vector<std::int64_t> told_, heard_;  // of lengths, but to a root
    heap_memory out_, in_;                    // blocks behind their lengths; in_ of long ones: where recv has no room
};

}  // namespace terrace::detail
