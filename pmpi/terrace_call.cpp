#include "pmpi/terrace_call.hpp"

#include <algorithm>
#include <numeric>

#include "pmpi/datatypes.hpp"

namespace terrace::detail::pmpi {

namespace {

constexpr element_type byte = element_type::uint8;  // type of data that only moves

std::int64_t extent_of(const side& s) noexcept { return layout_of(s.type).extent; }

}  // namespace

// Returns this rank's block of a side that has a block for each rank.
staged terrace_call::own_block(const side& s) const {
    const std::int64_t first = s.begins ? s.begins[rank_] : s.count * rank_;
    return {s.at, s.type, {{first * extent_of(s), s.counts ? s.counts[rank_] : s.count}}, c_.comm};
}

staged terrace_call::by_rank(const side& s, bool apart) const {
    const std::int64_t extent = extent_of(s);
    std::vector<piece> pieces;
    for (int r = 0; r < ranks_; ++r) pieces.push_back({s.begins[r] * extent, s.counts[r]});
    return {s.at, s.type, std::move(pieces), c_.comm, apart};
}

std::vector<std::int64_t> terrace_call::counts_of(const side& s, std::int64_t element) const {
    std::vector<std::int64_t> all;
    for (int r = 0; r < ranks_; ++r) all.push_back((s.counts ? s.counts[r] : s.count) * element);
    return all;
}

// In place, MPI's reduce_scatter puts the result at the front of the buffer, Terrace's at the rank's block. So the
// result goes through memory of its own.
terrace_call::terrace_call(const call& c, const attached& on)
    : c_(c),
      rank_(on.rank),
      ranks_(on.size),
      is_root_(has_root(c.what) && on.rank == c.root),
      in_place_(c.send.at == MPI_IN_PLACE) {
    switch (c.what) {
        case call_kind::allreduce:
        case call_kind::reduce:
            send_ = whole(in_place_ ? c.recv : c.send, 1);
            if (c.what == call_kind::allreduce || is_root_) recv_ = whole(c.recv, 1);
            break;
        case call_kind::bcast:
            recv_ = whole(c.recv, 1);
            if (is_root_) recv_.collect();
            delivers_ = !is_root_;
            break;
        case call_kind::allgather:
        case call_kind::gather:
            send_ = in_place_ ? own_block(c.recv) : whole(c.send, 1);
            if (c.what == call_kind::allgather || is_root_) recv_ = whole(c.recv, ranks_);
            break;
        case call_kind::allgatherv:
            send_ = in_place_ ? own_block(c.recv) : whole(c.send, 1);
            recv_ = by_rank(c.recv);
            counts_ = counts_of(c.recv, size_of_type(c.recv.type));
            break;
        case call_kind::reduce_scatter:
        case call_kind::reduce_scatter_block: {
            counts_ = counts_of(c.recv, 1);
            const std::int64_t all = std::reduce(counts_.begin(), counts_.end());
            send_ = {in_place_ ? c.recv.at : c.send.at, c.recv.type, {{0, all}}, c.comm};
            recv_ = {c.recv.at, c.recv.type, {{0, counts_[static_cast<std::size_t>(rank_)]}}, c.comm, in_place_};
            break;
        }
        case call_kind::alltoall:
            send_ = in_place_ ? whole(c.recv, ranks_, true) : whole(c.send, ranks_);
            recv_ = whole(c.recv, ranks_);
            break;
        case call_kind::alltoallv: set_up_alltoallv(); break;
        case call_kind::scatter:
            if (is_root_) send_ = whole(c.send, ranks_);
            if (!is_root_ || c.recv.at != MPI_IN_PLACE) recv_ = whole(c.recv, 1);
            break;
        default: break;
    }
    send_.collect();
}

void terrace_call::set_up_alltoallv() {
    const side& given = in_place_ ? c_.recv : c_.send;
    send_ = by_rank(given, in_place_);
    recv_ = by_rank(c_.recv);
    counts_ = counts_of(given, size_of_type(given.type));
    received_ = counts_of(c_.recv, size_of_type(c_.recv.type));
    capacity_ = std::reduce(received_.begin(), received_.end());
    most_ = std::max({std::int64_t{1}, *std::max_element(counts_.begin(), counts_.end()),
                      *std::max_element(received_.begin(), received_.end())});
}

request terrace_call::start(communicator& by) {
    const std::byte* send = send_.data();
    std::byte* recv = recv_.data();
    if (reduces(c_.what)) {
        const element_type type = *element_of(c_.recv.type);
        const reduce_op op = *operation_of(c_.op);
        if (c_.what == call_kind::allreduce) return by.allreduce_async(send, recv, c_.recv.count, type, op);
        if (c_.what == call_kind::reduce) return by.reduce_async(send, recv, c_.recv.count, type, c_.root, op);
        if (c_.what == call_kind::reduce_scatter) return by.reduce_scatter_async(send, recv, counts_, type, op);
        return by.reduce_scatter_async(send, recv, c_.recv.count, type, op);
    }
    const auto block = [](const side& s) { return s.count * size_of_type(s.type); };
    switch (c_.what) {
        case call_kind::bcast: return by.broadcast_async(recv, block(c_.recv), byte, c_.root);
        case call_kind::allgather: return by.allgather_async(send, recv, block(c_.recv), byte);
        case call_kind::allgatherv: return by.allgather_async(send, recv, counts_, byte);
        case call_kind::alltoall: return by.alltoall_async(send, recv, block(c_.recv), byte);
        case call_kind::alltoallv: return by.alltoallv_async(send, counts_, recv, capacity_, received_, most_, byte);
        case call_kind::gather: return by.gather_async(send, recv, block(is_root_ ? c_.recv : c_.send), byte, c_.root);
        case call_kind::scatter: {
            const std::int64_t bytes = block(is_root_ ? c_.send : c_.recv);
            // In place the root's block stays where it is.
            if (is_root_ && c_.recv.at == MPI_IN_PLACE) recv = send_.data() + rank_ * bytes;
            return by.scatter_async(send, recv, bytes, byte, c_.root);
        }
        default: return by.barrier_async();
    }
}

}  // namespace terrace::detail::pmpi
