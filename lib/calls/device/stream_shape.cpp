#include "calls/device/stream_shape.hpp"

#include <numeric>

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace::detail {

namespace {

bool fits(collective what, const nccl::stream_call& c, const communicator& comm, int root) {
    const bool is_root = comm.rank() == root;
    const auto given = static_cast<std::size_t>(row_of(what).blocks_given(is_root, comm.size()));
    const auto got = static_cast<std::size_t>(row_of(what).blocks_got(is_root, comm.size()));
    if (what == collective::broadcast || given == 0 || got == 0) return true;
    return c.sent * got == c.received * given && c.sent % given == 0;
}

}  // namespace

call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm, reduce_op op, int root) {
    if (!fits(what, c, comm, root))
        throw usage_error(
            fmt::format("{}: send has {} elements and recv has {}, which contradict each other on {} ranks",
                        to_string(what), c.sent, c.received, comm.size()));
    const std::size_t all = row_of(what).gets_own_block() ? c.received : c.sent;
    const std::size_t count = what == collective::alltoall ? all / static_cast<std::size_t>(comm.size()) : all;
    return {
        .what = what, .count = static_cast<std::int64_t>(count), .counts = {}, .type = c.type, .op = op, .root = root};
}

call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    std::span<const std::int64_t> counts, reduce_op op) {
    if (counts.size() != static_cast<std::size_t>(comm.size()))
        throw usage_error(fmt::format("{}: there are {} counts for {} ranks; pass one for each rank", to_string(what),
                                      counts.size(), comm.size()));
    const bool gathers = what == collective::allgather;
    const auto all = static_cast<std::size_t>(std::reduce(counts.begin(), counts.end()));
    const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]);
    if (c.sent != (gathers ? own : all) || c.received != (gathers ? all : own))
        throw usage_error(
            fmt::format("{}: the counts require buffers of {} elements in all and {} for rank {}, but send has {} "
                        "elements and recv has {}",
                        to_string(what), all, own, comm.rank(), c.sent, c.received));
    return {.what = what, .counts = {counts.begin(), counts.end()}, .type = c.type, .op = op};
}

}  // namespace terrace::detail
