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
#include "plan/plan_access.hpp"
#include "schedule/slice.hpp"
#include "schedule/stage_groups.hpp"
#include "transport/nccl/module.hpp"

namespace terrace::detail {

namespace {

// Loads the GPU runtime on all ranks. Collective. @throws transport_error on all ranks if one cannot load it
const gpu_runtime& need_runtime_on_all(const options& o, team& ranks, const std::vector<int>& callers_rank) {
    const gpu_module m = load_gpu_module(o.gpu_module);
    const std::vector<std::string> troubles = ranks.exchange(m.runtime == nullptr ? m.trouble : "");
    for (std::size_t r = 0; r < troubles.size(); ++r)
        if (!troubles[r].empty())
            throw transport_error("nccl", "dlopen", 1, fmt::format("rank {}: {}", callers_rank[r], troubles[r]));
    return *m.runtime;
}

// If no device is requested, the ranks of a node get its devices in turn.
device_setting setting_of(int asked, team& ranks, const gpu_runtime& gpu) {
    device_setting on{&gpu, asked, std::string(value_in(process_environment(), "NCCL_HOSTID"))};
    if (asked != nccl::device_by_rank) return on;
    const int place = ranks.place_on_node();
    int devices = 0;
    const bool known = gpu.device_count(&devices) == 0 && devices > 0;  // if not, the transport reports the error
    on.number = known ? place % devices : 0;
    return on;
}

// Stages over MPI between devices run in a thread of their own, beside the caller's. All ranks have the same plan, so
// all throw if MPI does not allow this on one of them.
void expect_threads(const plan& p, const network& net, team& ranks) {
    if (!any_over_mpi(data_of(p))) return;
    for (const std::string& one_thread : ranks.exchange(net.traits().one_thread))
        if (!one_thread.empty())
            throw usage_error(
                fmt::format("the plan has stages of provider mpi, which a thread of Terrace runs between devices: {}, "
                            "or plan without provider mpi",
                            one_thread));
}

}  // namespace

void use_device(communicator_core& on, int number, const gpu_runtime* gpu) {
    on.expect_no_group("use_device");
    const auto held = on.hold();
    if (const auto& used = on.calls().device_in_use())
        throw usage_error(fmt::format("use_device: the communicator has device {} already", used->number));
    on.end_calls_for("use_device");
    team& ranks = on.net().ranks();
    const options& o = on.settings();
    if (gpu == nullptr) gpu = &need_runtime_on_all(o, ranks, on.ranks().callers);
    expect_threads(on.planned(), *on.net().base().net, ranks);
    on.calls().use_device(setting_of(number, ranks, *gpu), most_lanes(data_of(on.planned())));
    if (o.log && on.ranks().own == 0) o.log(log_level::info, fmt::format("use_device: {}", on.transports()));
}

void enqueue(communicator_core& on, const full_call& c, CUstream_st* stream) {
    const auto held = on.hold();
    on.calls().expect_unbroken(to_string(c.shape.what));
    on.calls().device_for(to_string(c.shape.what));
    on.calls().enqueue(c, stream);
}

communicator create_over_mpi(const mpi_world& world, const plan* p, int device, const options& o) {
    connection all = over_mpi(world, o);
    const gpu_runtime& gpu =
        or_tell_others(all.ranks, "no GPU", [&]() -> const gpu_runtime& { return need_gpu_runtime(o.gpu_module); });
    planned_ranks with = connect(std::move(all), p, o, ", device buffers");
    expect_threads(with.by, *with.net.net, with.net.ranks);
    const device_setting on = setting_of(device, with.net.ranks, gpu);
    return make_communicator(std::move(with), o, on);
}

}  // namespace terrace::detail

namespace terrace::nccl {

using namespace detail;

namespace {

void enqueue(communicator& comm, call_shape shape, const stream_call& c) {
    detail::enqueue(core_of(comm), {std::move(shape), {c.send, c.recv}}, c.stream);
}

void enqueue(communicator& comm, collective what, const stream_call& c, int root = 0, reduce_op op = reduce_op::sum) {
    enqueue(comm, shape_of(what, c, comm, op, root), c);
}

}  // namespace

void use_device(communicator& comm, int device) { detail::use_device(core_of(comm), device); }

CUstream_st* stream_of(communicator& comm) { return core_of(comm).calls().device_for("stream_of").own_stream(); }

void synchronize(communicator& comm) {
    communicator_core& core = core_of(comm);
    const auto held = core.hold();
    core.calls().expect_unbroken("synchronize");
    if (device_calls* device = core.calls().device()) core.failure().latch([&] { device->wait_for_all(); });
}

void allreduce(communicator& comm, const stream_call& c, reduce_op op) {
    enqueue(comm, collective::allreduce, c, 0, op);
}

void reduce_scatter(communicator& comm, const stream_call& c, reduce_op op) {
    enqueue(comm, collective::reduce_scatter, c, 0, op);
}

void reduce_scatter(communicator& comm, const stream_call& c, std::span<const std::int64_t> counts, reduce_op op) {
    enqueue(comm, shape_of(collective::reduce_scatter, c, comm, counts, op), c);
}

void allgather(communicator& comm, const stream_call& c, std::span<const std::int64_t> counts) {
    enqueue(comm, shape_of(collective::allgather, c, comm, counts), c);
}

void allgather(communicator& comm, const stream_call& c) { enqueue(comm, collective::allgather, c); }

void alltoall(communicator& comm, const stream_call& c) { enqueue(comm, collective::alltoall, c); }

void gather(communicator& comm, const stream_call& c, int root) { enqueue(comm, collective::gather, c, root); }

void scatter(communicator& comm, const stream_call& c, int root) { enqueue(comm, collective::scatter, c, root); }

void broadcast(communicator& comm, const stream_call& c, int root) { enqueue(comm, collective::broadcast, c, root); }

void reduce(communicator& comm, const stream_call& c, int root, reduce_op op) {
    enqueue(comm, collective::reduce, c, root, op);
}

}  // namespace terrace::nccl
