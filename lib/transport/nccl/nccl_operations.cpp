#include "transport/nccl/nccl_operations.hpp"

namespace terrace::detail {

namespace {

std::size_t offset(const stage_call& c, range part) { return static_cast<std::size_t>(part.begin) * c.element; }
std::size_t bytes(const stage_call& c, range part) { return static_cast<std::size_t>(part.count()) * c.element; }
std::size_t count(range part) { return static_cast<std::size_t>(part.count()); }

// The part of the vector that the stage leaves on this rank.
range result_of(const stage_call& c) {
    if (c.what == action::stage_reduce_scatter) return c.group->own_shard();
    if (c.what == action::stage_reduce && !c.group->is_root()) return {};
    return c.group->whole();
}

}  // namespace

void nccl_operations::open(int queue, const call_position& where, std::string_view /*stage*/,
                           std::byte* /*host*/) noexcept {
    open_ = &comms_.of_stage(where.stage);
    queue_ = queue;
    log_.begin(where);
    comms_.claim(*open_, queue, calls_.current());
    on_.hold_failures();
    comms_.check("ncclGroupStart", on_.gpu().group_start());
}

void nccl_operations::send(int peer, const void* from, std::size_t bytes) noexcept {
    log_.meets(peer);
    if (!on_.fault()) comms_.check("ncclSend", on_.gpu().send(from, bytes, peer, *open_->comm, on_.at(queue_).stream));
}

void nccl_operations::recv(int peer, void* to, std::size_t bytes) noexcept {
    log_.meets(peer);
    if (!on_.fault()) comms_.check("ncclRecv", on_.gpu().recv(to, bytes, peer, *open_->comm, on_.at(queue_).stream));
}

void nccl_operations::close() noexcept {
    const bool failed = on_.fault().has_value();
    const int code = on_.gpu().group_end();  // a group that has been started must be ended, whatever became of it
    on_.release_failures();
    if (failed) return;
    comms_.check("ncclGroupEnd", code);
    leave(*open_, queue_);
}

void nccl_operations::run_stage(int queue, const call_position& where, const stage_call& c) noexcept {
    nccl_comms::communicator& to = comms_.of_group(c.group->members());
    comms_.claim(to, queue, calls_.current());
    // NCCL wants what a rank gives in one piece. Where its own shard lies apart, the place for it is free.
    const range own = c.group->own_shard();
    const bool apart = c.own != c.src && (c.what == action::stage_reduce_scatter || c.what == action::stage_allreduce);
    if (apart && own.count() > 0)
        on_.copy(queue, const_cast<std::byte*>(c.src) + offset(c, own), c.own + offset(c, own), bytes(c, own));
    if (on_.fault()) return;
    log_.begin(where);
    for (const int member : c.group->members()) log_.meets(member);
    start_collective(c, *to.comm, on_.at(queue).stream);
    leave(to, queue);
    const range got = result_of(c);
    if (c.divisor == 1 || got.empty()) return;
    const void* sum = c.dst + offset(c, got);
    on_.reduce(queue, c.dst + offset(c, got), std::span(&sum, 1), got.count(), c.type, c.op, c.divisor);
}

void nccl_operations::start_collective(const stage_call& c, nccl_comm comm, gpu_stream stream) noexcept {
    const gpu_runtime& gpu = on_.gpu();
    const range whole = c.group->whole(), own = c.group->own_shard();
    const std::byte* src = c.src + offset(c, whole);
    std::byte* dst = c.dst + offset(c, whole);
    const int root = c.group->root();
    switch (c.what) {
        case action::stage_reduce_scatter:
            return comms_.check("ncclReduceScatter", gpu.reduce_scatter(src, c.dst + offset(c, own), count(own), c.type,
                                                                        c.op, comm, stream));
        case action::stage_allgather:
            return comms_.check("ncclAllGather",
                                gpu.all_gather(c.src + offset(c, own), dst, bytes(c, own), comm, stream));
        case action::stage_allreduce:
            return comms_.check("ncclAllReduce", gpu.all_reduce(src, dst, count(whole), c.type, c.op, comm, stream));
        case action::stage_reduce:
            if (c.group->is_root()) src = c.own + offset(c, whole);
            return comms_.check("ncclReduce", gpu.reduce(src, c.group->is_root() ? dst : nullptr, count(whole), c.type,
                                                         c.op, root, comm, stream));
        default: return comms_.check("ncclBroadcast", gpu.broadcast(src, dst, bytes(c, whole), root, comm, stream));
    }
}

void nccl_operations::leave(nccl_comms::communicator& c, int queue) noexcept {
    if (on_.fault()) return;
    comms_.leave(c, queue, calls_.current());
    on_.check("cudaEventRecord", log_.end(on_.at(queue).stream));
}

}  // namespace terrace::detail
