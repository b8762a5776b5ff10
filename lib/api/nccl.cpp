#include <terrace/nccl.hpp>

#include <algorithm>

#include "api/core.hpp"
#include "api/environment.hpp"
#include "api/mpi_world.hpp"
#include "api/stream_shape.hpp"
#include "schedule/stage_groups.hpp"
#include "transport/mpi/mpi_transport.hpp"
#include "transport/nccl/module.hpp"

namespace terrace::nccl {

namespace {

const gpu_runtime& need_runtime(const options& o) {
    const gpu_module m = load_gpu_module(o.gpu_module);
    if (m.runtime == nullptr) throw transport_error("nccl", "dlopen", 1, m.trouble);
    return *m.runtime;
}

// The rank's own number among those of its node, around the devices.
int device_of(transport& net, const gpu_runtime& gpu) {
    const std::vector<int> nodes = net.nodes();
    const auto me = nodes.begin() + net.rank();
    int devices = 0;
    if (gpu.device_count(&devices) != 0 || devices == 0) return 0;  // which the transport finds out and reports
    return static_cast<int>(std::count(nodes.begin(), me, *me)) % devices;
}

constexpr std::string_view also = ", device buffers";

// A thread takes what goes over MPI, beside those of the caller. All ranks have the plan, and know of the least level.
void expect_threads(const plan& p, transport& net) {
    if (!any_over_mpi(p.get())) return;
    int mine = MPI_THREAD_MULTIPLE;
    MPI_Query_thread(&mine);
    std::vector<int> all(static_cast<std::size_t>(net.size()));
    net.gather_all(&mine, all.data(), sizeof mine);
    if (*std::min_element(all.begin(), all.end()) < MPI_THREAD_MULTIPLE)
        throw usage_error(
            "the plan has stages over mpi between devices, which a thread moves along: ask MPI_Init_thread "
            "for MPI_THREAD_MULTIPLE, or plan all stages over nccl");
}

template <class Connect>
communicator create_with(MPI_Comm world, int device, const options& o, Connect connect) {
    const gpu_runtime& gpu =
        mpi::or_tell_others(world, "no GPU", [&]() -> const gpu_runtime& { return need_runtime(o); });
    mpi::planned with = connect();
    expect_threads(with.by, *with.net);
    const device_setting on{&gpu, device == device_by_rank ? device_of(*with.net, gpu) : device};
    return communicator(std::make_unique<communicator::core>(with.by, std::move(with.net), mpi_rank(world), o, on));
}

void enqueue(communicator& comm, const call_shape& shape, const stream_call& c) {
    comm.inside().enqueue(shape, c.send, c.recv, c.stream);
}

}  // namespace

communicator create(MPI_Comm world, const plan& p, int device, const options& o) {
    return create_with(world, device, o, [&] { return mpi::connect(world, p, o, also); });
}

communicator create(MPI_Comm world, int device, const options& o) {
    return create_with(world, device, o, [&] { return mpi::connect(world, o, also); });
}

void synchronize(communicator& comm) { comm.inside().synchronize(); }

void allreduce(communicator& comm, const stream_call& c, reduce_op op) {
    enqueue(comm, shape_of(collective::allreduce, c, comm, op), c);
}

void reduce_scatter(communicator& comm, const stream_call& c, reduce_op op) {
    enqueue(comm, shape_of(collective::reduce_scatter, c, comm, op), c);
}

void allgather(communicator& comm, const stream_call& c) { enqueue(comm, shape_of(collective::allgather, c, comm), c); }

void broadcast(communicator& comm, const stream_call& c, int root) {
    enqueue(comm, shape_of(collective::broadcast, c, comm, reduce_op::sum, root), c);
}

void reduce(communicator& comm, const stream_call& c, int root, reduce_op op) {
    enqueue(comm, shape_of(collective::reduce, c, comm, op, root), c);
}

}  // namespace terrace::nccl
