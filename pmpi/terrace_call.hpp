#pragma once

#include <cstdint>
#include <vector>

#include "pmpi/attached.hpp"
#include "pmpi/call.hpp"
#include "pmpi/staging.hpp"

namespace terrace::detail::pmpi {

/// An MPI call as Terrace runs it. Must live until the call is complete.
class terrace_call {
public:
    /// Packs the data to send.
    terrace_call(const call& c, const attached& on);

    /// Returns true if ranks must agree() before start(): on the longest block of an alltoallv.
    bool must_agree() const noexcept { return c_.what == call_kind::alltoallv; }
    /// Starts the agreement. Collective. @throws as the collectives of `by`
    request agree(communicator& by) {
        return by.allreduce_async(&most_, &most_, 1, element_type::int64, reduce_op::max);
    }
    /// @throws as the collectives of `by`
    request start(communicator& by);
    /// Unpacks the received data.
    void finish() const {
        if (delivers_) recv_.deliver();
    }

private:
    staged whole(const side& s, std::int64_t blocks, bool apart = false) const {
        return {s.at, s.type, {{0, s.count * blocks}}, c_.comm, apart};
    }
    staged own_block(const side& s) const;
    staged by_rank(const side& s, bool apart = false) const;
    std::vector<std::int64_t> counts_of(const side& s, std::int64_t element) const;
    void set_up_alltoallv();

    call c_;
    int rank_, ranks_;
    bool is_root_, in_place_;
    staged send_, recv_;
    bool delivers_ = true;
    std::vector<std::int64_t> counts_, received_;
    std::int64_t capacity_ = 0, most_ = 0;  // bytes, of an alltoallv
};

}  // namespace terrace::detail::pmpi
