#include "api/stream_shape.hpp"

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace {

namespace {

bool fits(collective what, const nccl::stream_call& c, const communicator& comm, int root) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    switch (what) {
        case collective::allreduce: return c.sent == c.received;
        case collective::reduce_scatter: return c.sent == c.received * ranks;
        case collective::allgather: return c.received == c.sent * ranks;
        case collective::broadcast: return true;
        case collective::reduce: return comm.rank() != root || c.sent == c.received;
    }
    return false;
}

}  // namespace

call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm, reduce_op op, int root) {
    if (!fits(what, c, comm, root))
        throw usage_error(
            fmt::format("{}: send has {} elements and recv {}; they do not fit", to_string(what), c.sent, c.received));
    const std::size_t count = what == collective::reduce_scatter ? c.received : c.sent;
    return {
        .what = what, .count = static_cast<std::int64_t>(count), .counts = {}, .type = c.type, .op = op, .root = root};
}

}  // namespace terrace
