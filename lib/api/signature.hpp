#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/types.hpp>

#include "plan/plan_data.hpp"

namespace terrace::detail {

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
    std::vector<std::int64_t> received = {};  ///< of unequal blocks by rank: what this rank gets, where `counts` go out
    bool exact = false;                       ///< reduction::is_exact()
    friend bool operator==(const call_shape&, const call_shape&) = default;
};

/// Returns the name of the function that the caller has called.
constexpr std::string_view name_of(const call_shape& call) noexcept {
    return call.is_barrier ? "barrier" : !call.part_of.empty() ? call.part_of : to_string(call.what);
}

/// 64 bits over all of it.
std::uint64_t signature_of(const call_shape& call) noexcept;

/// "reduce of 1000 float32, sum, to rank 3", "allgather of blocks of 3 4 5 float64".
std::string describe(const call_shape& call);

/// Why the call is wrong in itself on one of `ranks` ranks, whatever the others do; empty if it is not.
std::string objection_to(const call_shape& call, int rank, int ranks, const void* send, const void* recv);

}  // namespace terrace::detail
