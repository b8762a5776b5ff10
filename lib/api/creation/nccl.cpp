#include <terrace/device.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/core.hpp"
#include "api/creation/connect.hpp"
#include "api/creation/over_mpi.hpp"
#include "api/environment.hpp"
#include "calls/device/stream_shape.hpp"
#include "plan/plan_access.hpp"
#include "schedule/slice.hpp"
#include "schedule/stage_groups.hpp"
#include "transport/nccl/module.hpp"

namespace terrace::detail {

namespace {

[[noreturn]] void refuse_module(const std::string& trouble) { throw transport_error("nccl", "dlopen", 1, trouble); }

const gpu_runtime& need_runtime(const options& o) {
    const gpu_module m = load_gpu_module(o.gpu_module);
    if (m.runtime == nullptr) refuse_module(m.trouble);
    return *m.runtime;
}

// The same, where another rank that cannot load it is waited for. @throws on all ranks
const gpu_runtime& need_runtime_on_all(const options& o, team& ranks, const std::vector<int>& callers_rank) {
    const gpu_module m = load_gpu_module(o.gpu_module);
    const std::vector<std::string> troubles = ranks.exchange(m.runtime == nullptr ? m.trouble : "");
    for (std::size_t r = 0; r < troubles.size(); ++r)
        if (!troubles[r].empty()) refuse_module(fmt::format("rank {}: {}", callers_rank[r], troubles[r]));
    return *m.runtime;
}

// Devices are dealt to the ranks of a node in turn, where none is asked for.
int device_of(int asked, team& ranks, const gpu_runtime& gpu) {
    if (asked != nccl::device_by_rank) return asked;
    const std::vector<int> nodes = ranks.nodes();
    const auto me = nodes.begin() + ranks.rank();
    int devices = 0;
    if (gpu.device_count(&devices) != 0 || devices == 0) return 0;  // which the transport finds out and reports
    return static_cast<int>(std::count(nodes.begin(), me, *me)) % devices;
}

constexpr std::string_view also = ", device buffers";

// Stages over MPI between devices have a thread of their own, beside the caller's. All ranks have the plan, and learn
// here if MPI does not allow it on one of them.
void expect_threads(const plan& p, const network& net, team& ranks) {
    if (!any_over_mpi(data_of(p))) return;
    for (const std::string& one_thread : ranks.exchange(net.traits().one_thread))
        if (!one_thread.empty())
            throw usage_error(
                fmt::format("the plan has stages of provider mpi, which a thread of Terrace runs between devices: {}, "
                            "or plan without provider mpi",
                            one_thread));
}

template <class... Plan>
communicator create_by(connection all, int device, const options& o, const Plan&... p) {
    const gpu_runtime& gpu =
        or_tell_others(all.ranks, "no GPU", [&]() -> const gpu_runtime& { return need_runtime(o); });
    const int rank = all.ranks.rank();
    planned with = connect(std::move(all), p..., o, also);
    expect_threads(with.by, *with.net.net, with.net.ranks);
    const device_setting on{&gpu, device_of(device, with.net.ranks, gpu), nccl_host_in(process_environment())};
    return make_communicator(with.by, std::move(with.net), rank, o, on);
}

}  // namespace

void communicator_core::use_device(int number, const gpu_runtime* gpu) {
    expect_no_group("use_device");
    const auto held = hold();
    if (device_calls_)
        throw usage_error(fmt::format("use_device: the communicator has device {} already", device_->number));
    end_calls_for("use_device");
    team& ranks = net_->ranks();
    if (gpu == nullptr) gpu = &need_runtime_on_all(options_, ranks, callers_rank_);
    expect_threads(plan_, *net_->by().net, ranks);
    const device_setting on{gpu, device_of(number, ranks, *gpu), nccl_host_in(process_environment())};
    device_calls_ = std::make_unique<device_calls>(binding_, on, net_->by(), options_, most_lanes(data_of(plan_)));
    device_ = on;
    if (options_.log && rank_ == 0) options_.log(log_level::info, fmt::format("use_device: {}", transports()));
}

CUstream_st* communicator_core::device_stream() {
    expect_device("stream_of");
    return device_calls_->own_stream();
}

communicator create_over_mpi(const mpi_world& world, const plan& p, int device, const options& o) {
    return create_by(over_mpi(world, o), device, o, p);
}

communicator create_over_mpi(const mpi_world& world, int device, const options& o) {
    return create_by(over_mpi(world, o), device, o);
}

}  // namespace terrace::detail

namespace terrace::nccl {

using namespace detail;

namespace {

void enqueue(communicator& comm, const call_shape& shape, const stream_call& c) {
    core_of(comm).enqueue(shape, c.send, c.recv, c.stream);
}

}  // namespace

void use_device(communicator& comm, int device) { core_of(comm).use_device(device); }

CUstream_st* stream_of(communicator& comm) { return core_of(comm).device_stream(); }

void synchronize(communicator& comm) { core_of(comm).synchronize(); }

void allreduce(communicator& comm, const stream_call& c, reduce_op op) {
    enqueue(comm, shape_of(collective::allreduce, c, comm, op), c);
}

void reduce_scatter(communicator& comm, const stream_call& c, reduce_op op) {
    enqueue(comm, shape_of(collective::reduce_scatter, c, comm, op), c);
}

void reduce_scatter(communicator& comm, const stream_call& c, std::span<const std::int64_t> counts, reduce_op op) {
    enqueue(comm, shape_of(collective::reduce_scatter, c, comm, counts, op), c);
}

void allgather(communicator& comm, const stream_call& c, std::span<const std::int64_t> counts) {
    enqueue(comm, shape_of(collective::allgather, c, comm, counts), c);
}

void allgather(communicator& comm, const stream_call& c) { enqueue(comm, shape_of(collective::allgather, c, comm), c); }

void alltoall(communicator& comm, const stream_call& c) { enqueue(comm, shape_of(collective::alltoall, c, comm), c); }

void gather(communicator& comm, const stream_call& c, int root) {
    enqueue(comm, shape_of(collective::gather, c, comm, reduce_op::sum, root), c);
}

void scatter(communicator& comm, const stream_call& c, int root) {
    enqueue(comm, shape_of(collective::scatter, c, comm, reduce_op::sum, root), c);
}

void broadcast(communicator& comm, const stream_call& c, int root) {
    enqueue(comm, shape_of(collective::broadcast, c, comm, reduce_op::sum, root), c);
}

void reduce(communicator& comm, const stream_call& c, int root, reduce_op op) {
    enqueue(comm, shape_of(collective::reduce, c, comm, op, root), c);
}

}  // namespace terrace::nccl
