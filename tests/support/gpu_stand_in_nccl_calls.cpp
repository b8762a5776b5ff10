#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "kernels/reduce.hpp"
#include "support/gpu_stand_in_state.hpp"

namespace terrace::detail::test {

namespace {

namespace nccl_calls {

comm_state* comm_of(nccl_comm c) { return reinterpret_cast<comm_state*>(c); }

int make_id(nccl_id* id) {
    TERRACE_ENTER("ncclGetUniqueId");
    const char* order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    m.rule(order != nullptr && std::string_view(order) == "1", "several communicators without one order of launches");
    const std::uint64_t number = ++m.ids;
    std::memcpy(id, &number, sizeof number);
    return 0;
}

int make_comm(nccl_comm* comm, int ranks, const nccl_id* id, int rank, bool /*blocking*/) {
    TERRACE_ENTER("ncclCommInitRankConfig");
    std::uint64_t number = 0;
    std::memcpy(&number, id, sizeof number);
    auto& all = m.by_id[number];
    if (!all) all = std::make_shared<clique>();
    all->members.resize(static_cast<std::size_t>(ranks));
    comm_state* c = m.new_comm(current_device);
    c->all = all;
    c->rank = rank;
    all->members[static_cast<std::size_t>(rank)] = c;
    *comm = reinterpret_cast<nccl_comm>(c);
    if (std::find(all->members.begin(), all->members.end(), nullptr) == all->members.end())
        for (comm_state* each : all->members) each->ready = true;
    return gpu_runtime::in_progress;
}

int split(nccl_comm comm, int color, int key, nccl_comm* part) {
    TERRACE_ENTER("ncclCommSplit");
    comm_state* c = comm_of(comm);
    if (!m.usable(c, "ncclCommSplit")) return 5;
    comm_state* child = color < 0 ? nullptr : m.new_comm(c->device);
    *part = nullptr;
    c->splitting = true;
    c->all->splits[c->rank] = {child, reinterpret_cast<comm_state**>(part), color, key};
    m.split_if_all_are_here(*c->all);
    return gpu_runtime::in_progress;
}

int status(nccl_comm comm, int* code) {
    TERRACE_ENTER("ncclCommGetAsyncError");
    comm_state* c = comm_of(comm);
    m.rule(!c->aborted && !c->dropped, "ncclCommGetAsyncError of a communicator that is gone");
    const bool draining = c->finalizing && (c->completed < c->issued || c->graphs > 0);
    *code = c->error;
    if (c->error == 0 && (!c->ready || c->splitting || draining || c->busy > 0)) *code = gpu_runtime::in_progress;
    if (c->busy > 0) --c->busy;
    return 0;
}

int finalize(nccl_comm comm) {
    TERRACE_ENTER("ncclCommFinalize");
    if (!m.usable(comm_of(comm), "ncclCommFinalize")) return 5;
    comm_of(comm)->finalizing = true;
    return gpu_runtime::in_progress;
}

int drop_comm(nccl_comm comm) {
    TERRACE_ENTER("ncclCommDestroy");
    comm_state* c = comm_of(comm);
    if (!m.usable(c, "ncclCommDestroy")) return 5;
    m.rule(c->completed == c->issued && c->graphs == 0, "ncclCommDestroy with operations under way");
    c->dropped = true;
    return 0;
}

int abort_comm(nccl_comm comm) {
    {
        TERRACE_ENTER("ncclCommAbort");
        comm_state* c = comm_of(comm);
        m.rule(!c->aborted && !c->dropped, "ncclCommAbort of a communicator that is gone");
        m.rule(c->grouped == 0, "ncclCommAbort with operations in a group that is open");
        if (c->splitting) {  // ends the split, and writes its handle
            const auto own = c->all->splits.extract(c->rank);
            *own.mapped().place = own.mapped().child;
            c->splitting = false;
        }
        m.mark_aborted(c);
    }
    machine->end_aborted();
    return 0;
}

int group_start() {
    TERRACE_ENTER("ncclGroupStart");
    m.begin_group();
    return 0;
}

int group_end() {
    int code = 0;
    {
        const auto held = lock_machine();
        code = machine->end_group(machine->entering("ncclGroupEnd"));
    }
    machine->end_aborted();
    return code;
}

int send(const void* from, std::size_t bytes, int peer, nccl_comm comm, gpu_stream stream) {
    TERRACE_ENTER("ncclSend");
    return m.add_message(comm_of(comm), stream, {peer, from, nullptr, bytes}, true);
}

int recv(void* to, std::size_t bytes, int peer, nccl_comm comm, gpu_stream stream) {
    TERRACE_ENTER("ncclRecv");
    return m.add_message(comm_of(comm), stream, {peer, nullptr, to, bytes}, false);
}

int collective(const char* function, network_kind what, const void* from, void* to, std::size_t count,
               element_type type, reduce_op op, int root, nccl_comm comm, gpu_stream stream) {
    TERRACE_ENTER(function);
    const bool reduces = what != network_kind::all_gather && what != network_kind::broadcast;
    m.rule(!reduces || nccl_reduces(type, op), fmt::format("{} of {}, {}", function, to_string(type), to_string(op)));
    auto made = std::make_shared<network_op>();
    made->what = what;
    made->comm = comm_of(comm);
    made->from = from;
    made->to = to;
    made->count = count;
    made->type = type;
    made->op = op == reduce_op::avg ? reduce_op::sum : op;
    made->root = root;
    return m.issue(stream, made, function);
}

int all_gather(const void* from, void* to, std::size_t bytes, nccl_comm comm, gpu_stream stream) {
    return collective("ncclAllGather", network_kind::all_gather, from, to, bytes, element_type::uint8, reduce_op::sum,
                      0, comm, stream);
}
int broadcast(const void* from, void* to, std::size_t bytes, int root, nccl_comm comm, gpu_stream stream) {
    return collective("ncclBroadcast", network_kind::broadcast, from, to, bytes, element_type::uint8, reduce_op::sum,
                      root, comm, stream);
}
int all_reduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm comm,
               gpu_stream stream) {
    return collective("ncclAllReduce", network_kind::all_reduce, from, to, count, type, op, 0, comm, stream);
}
int reduce_scatter(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm comm,
                   gpu_stream stream) {
    return collective("ncclReduceScatter", network_kind::reduce_scatter, from, to, count, type, op, 0, comm, stream);
}
int reduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, int root, nccl_comm comm,
           gpu_stream stream) {
    return collective("ncclReduce", network_kind::reduce, from, to, count, type, op, root, comm, stream);
}

int combine(void* dst, const void* const* sources, int k, std::int64_t count, element_type type, reduce_op op,
            int divisor, gpu_stream stream) {
    TERRACE_ENTER("combine");
    stream_state* s = m.stream_of(stream);
    std::vector<const void*> from(sources, sources + k);
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
    const auto check = [=, device = s->device] {
        machine->check_memory(device, dst, bytes, "combine");
        for (const void* each : from) machine->check_memory(device, each, bytes, "combine");
    };
    check();
    m.put(s, {stream_op::kind::work,
              [=] {
                  check();  // memory may have changed since a capture
                  find_reduce(type, op)(dst, from.data(), static_cast<int>(from.size()), count, divisor);
              },
              nullptr, 0, nullptr});
    return 0;
}

}  // namespace nccl_calls

}  // namespace

void add_nccl_calls(gpu_runtime& table) {
    using namespace nccl_calls;
    table.nccl_error = [](int code) {
        return code == 6 ? "remote process exited or there was a network error" : "injected";
    };
    table.nccl_version = [](int* version) {
        *version = 22809;
        return 0;
    };
    table.make_id = make_id;
    table.make_comm = make_comm;
    table.split = split;
    table.status = status;
    table.finalize = finalize;
    table.drop_comm = drop_comm;
    table.abort = abort_comm;
    table.group_start = group_start;
    table.group_end = group_end;
    table.send = send;
    table.recv = recv;
    table.all_gather = all_gather;
    table.broadcast = broadcast;
    table.all_reduce = all_reduce;
    table.reduce_scatter = reduce_scatter;
    table.reduce = reduce;
    table.combine = combine;
}

}  // namespace terrace::detail::test
