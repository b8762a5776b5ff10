// A module in the place of terrace-nccl.so for programs under mpirun (TERRACE_GPU_MODULE): memory of the host for GPUs,
// MPI for NCCL. It is no GPU, and no time of it says anything of one. What a stream gets is done at once, by the thread
// that puts it in, or kept for a graph; whether order and rules are kept, gpu_stand_in checks. With TERRACE_TEST_WRONG
// set its ncclAllReduce makes a mistake.

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <mpi.h>

#include <terrace/version.hpp>

#include "kernels/reduce.hpp"
#include "transport/nccl/module.hpp"

namespace {

using namespace terrace;

using namespace terrace::detail;

using work = std::function<void()>;
using graph = std::vector<work>;
using clock_type = std::chrono::steady_clock;

struct stream_state {
    graph* capturing = nullptr;
};
struct event_state {
    graph* capturing = nullptr;
    clock_type::time_point reached{};
};
struct comm_state {
    MPI_Comm comm = MPI_COMM_NULL;
};

std::map<const std::byte*, std::size_t> memory;  // of the device
std::vector<stream_state*> streams;
struct {
    int depth = 0;
    gpu_stream stream = nullptr;
    std::vector<work> messages;
} group;  // that is open
std::vector<MPI_Request> requests;

stream_state& at(gpu_stream s) { return *reinterpret_cast<stream_state*>(s); }
event_state& at(gpu_event e) { return *reinterpret_cast<event_state*>(e); }
MPI_Comm at(nccl_comm c) { return reinterpret_cast<comm_state*>(c)->comm; }

int put(gpu_stream s, work w) {
    if (at(s).capturing != nullptr) at(s).capturing->push_back(std::move(w));
    else w();
    return 0;
}

int allocate(void** m, std::size_t bytes) {
    *m = std::malloc(bytes);
    std::memset(*m, 0xa5, bytes);
    return 0;
}

int allocate_on_device(void** m, std::size_t bytes) {
    memory[static_cast<std::byte*>(*m = std::malloc(bytes))] = bytes;
    return 0;
}

int release(void* m) {
    memory.erase(static_cast<std::byte*>(m));
    std::free(m);
    return 0;
}

int device_of(const void* m, int* device) {
    const auto* p = static_cast<const std::byte*>(m);
    const auto after = memory.upper_bound(p);
    *device = after != memory.begin() && p < std::prev(after)->first + std::prev(after)->second ? 0 : -1;
    return 0;
}

int record(gpu_event e, gpu_stream s) {
    at(e).capturing = at(s).capturing;
    at(e).reached = clock_type::now();
    return 0;
}

int wait(gpu_stream s, gpu_event e) {
    if (at(e).capturing != nullptr) at(s).capturing = at(e).capturing;
    return 0;
}

// Somebody else writes it.
int wait_value(gpu_stream, std::uint32_t* where, std::uint32_t least) {
    while (static_cast<std::int32_t>(std::atomic_ref(*where).load(std::memory_order_acquire) - least) < 0)
        sched_yield();
    return 0;
}

int seconds_between(double* seconds, gpu_event from, gpu_event to) {
    *seconds = std::chrono::duration<double>(at(to).reached - at(from).reached).count();
    return 0;
}

int end_capture(gpu_stream s, gpu_graph* ready) {
    graph* captured = at(s).capturing;
    for (stream_state* each : streams)
        if (each->capturing == captured) each->capturing = nullptr;
    *ready = reinterpret_cast<gpu_graph>(captured);
    return 0;
}

int launch(gpu_graph g, gpu_stream) {
    for (const work& w : *reinterpret_cast<graph*>(g)) w();
    return 0;
}

int split(nccl_comm comm, int color, int key, nccl_comm* part) {
    auto* made = new comm_state;
    MPI_Comm_split(at(comm), color < 0 ? MPI_UNDEFINED : color, key, &made->comm);
    *part = reinterpret_cast<nccl_comm>(color < 0 ? nullptr : made);
    return 0;
}

// An id is told from others by the process that made it, and how many that had made before.
struct id_content {
    char mark[8];
    int process, number;
};
constexpr char id_mark[8] = "standin";

int make_id(nccl_id* id) {
    static int made = 0;
    id_content content{{}, static_cast<int>(getpid()), made++};
    std::memcpy(content.mark, id_mark, sizeof id_mark);
    std::memcpy(id->bytes, &content, sizeof content);
    return 0;
}

// All processes that mpirun has started make one at once, those with one id together. Processes that do not use MPI
// themselves get it here, for one thread at a time.
int make_comm(nccl_comm* comm, int, const nccl_id* id, int rank) {
    constexpr int invalid_argument = 4, most = 1 << 24;
    id_content content{};
    std::memcpy(&content, id->bytes, sizeof content);
    if (std::memcmp(content.mark, id_mark, sizeof id_mark) != 0) return invalid_argument;
    int up = 0, provided = 0;
    MPI_Initialized(&up);
    if (up == 0) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    auto* made = new comm_state;
    MPI_Comm_split(MPI_COMM_WORLD, (content.process * 64 + content.number) % most, rank, &made->comm);
    *comm = reinterpret_cast<nccl_comm>(made);
    return gpu_runtime::in_progress;
}

int drop_comm(nccl_comm c) {
    MPI_Comm_free(&reinterpret_cast<comm_state*>(c)->comm);
    delete reinterpret_cast<comm_state*>(c);
    return 0;
}

// Messages of a group are started together, and it is through when they are.
int group_end() {
    if (--group.depth > 0 || group.messages.empty()) return 0;
    return put(group.stream, [messages = std::exchange(group.messages, {})] {
        for (const work& start : messages) start();
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        requests.clear();
    });
}

int message(gpu_stream s, work start) {
    group.stream = s;
    group.messages.push_back(std::move(start));
    return 0;
}

int send(const void* from, std::size_t bytes, int peer, nccl_comm c, gpu_stream s) {
    return message(
        s, [=] { MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, peer, 0, at(c), &requests.emplace_back()); });
}

int recv(void* to, std::size_t bytes, int peer, nccl_comm c, gpu_stream s) {
    return message(s,
                   [=] { MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, peer, 0, at(c), &requests.emplace_back()); });
}

int all_gather(const void* from, void* to, std::size_t bytes, nccl_comm c, gpu_stream s) {
    return put(s, [=] {
        int rank = 0;
        MPI_Comm_rank(at(c), &rank);
        auto* own = static_cast<std::byte*>(to) + static_cast<std::size_t>(rank) * bytes;
        std::memmove(own, from, bytes);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, to, static_cast<int>(bytes), MPI_BYTE, at(c));
    });
}

int broadcast(const void* from, void* to, std::size_t bytes, int root, nccl_comm c, gpu_stream s) {
    return put(s, [=] {
        int rank = 0;
        MPI_Comm_rank(at(c), &rank);
        if (rank == root && to != from) std::memmove(to, from, bytes);
        MPI_Bcast(to, static_cast<int>(bytes), MPI_BYTE, root, at(c));
    });
}

// The whole reduction of everybody's `count` elements, of which `to` gets those from `first` on.
void reduce_all(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm c,
                std::size_t first, std::size_t wanted) {
    int ranks = 0;
    MPI_Comm_size(at(c), &ranks);
    const std::size_t bytes = count * size_of(type);
    std::vector<std::byte> all(bytes * static_cast<std::size_t>(ranks)), sum(bytes);
    MPI_Allgather(from, static_cast<int>(bytes), MPI_BYTE, all.data(), static_cast<int>(bytes), MPI_BYTE, at(c));
    std::vector<const void*> inputs;
    for (int r = 0; r < ranks; ++r) inputs.push_back(all.data() + static_cast<std::size_t>(r) * bytes);
    find_reduce(type, op)(sum.data(), inputs.data(), ranks, static_cast<std::int64_t>(count), 1);
    if (wanted > 0) std::memcpy(to, sum.data() + first * size_of(type), wanted * size_of(type));
}

int all_reduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm c,
               gpu_stream s) {
    return put(s, [=] {
        reduce_all(from, to, count, type, op, c, 0, count);
        if (std::getenv("TERRACE_TEST_WRONG") != nullptr) *static_cast<char*>(to) ^= 1;
    });
}

int reduce_scatter(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm c,
                   gpu_stream s) {
    return put(s, [=] {
        int rank = 0, ranks = 0;
        MPI_Comm_rank(at(c), &rank);
        MPI_Comm_size(at(c), &ranks);
        reduce_all(from, to, count * static_cast<std::size_t>(ranks), type, op, c,
                   static_cast<std::size_t>(rank) * count, count);
    });
}

int reduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, int root, nccl_comm c,
           gpu_stream s) {
    return put(s, [=] {
        int rank = 0;
        MPI_Comm_rank(at(c), &rank);
        reduce_all(from, to, count, type, op, c, 0, rank == root ? count : 0);
    });
}

int combine(void* dst, const void* const* sources, int k, std::int64_t count, element_type type, reduce_op op,
            int divisor, gpu_stream s) {
    return put(s, [=, from = std::vector<const void*>(sources, sources + k)] {
        find_reduce(type, op)(dst, from.data(), k, count, divisor);
    });
}

}  // namespace

/// Memory of the "device" for tests that allocate none by CUDA; never released.
extern "C" __attribute__((visibility("default"))) void* terrace_test_device_memory(std::size_t bytes) {
    void* made = nullptr;
    allocate_on_device(&made, bytes);
    return made;
}

extern "C" __attribute__((visibility("default"))) const gpu_runtime terrace_gpu_runtime{
    .version = header_version,
    .bytes = sizeof(gpu_runtime),
    .cuda_error = [](int) { return "no CUDA here"; },
    .cuda_versions =
        [](int* driver, int* runtime) {
            *driver = *runtime = 1;  // 0.0
            return 0;
        },
    .device_count =
        [](int* count) {
            *count = 1;
            return 0;
        },
    .use_device = [](int) { return 0; },
    .device_name =
        [](int, char* name, std::size_t bytes) {
            std::strncpy(name, "stand-in (memory of the host, no GPU)", bytes);
            return 0;
        },
    .device_of = device_of,
    .allocate = allocate_on_device,
    .release = release,
    .allocate_pinned = allocate,
    .release_pinned = release,
    .make_stream =
        [](gpu_stream* s) {
            streams.push_back(new stream_state);
            *s = reinterpret_cast<gpu_stream>(streams.back());
            return 0;
        },
    .drop_stream =
        [](gpu_stream s) {
            std::erase(streams, &at(s));
            delete &at(s);
            return 0;
        },
    .stream_done =
        [](gpu_stream, bool* done) {
            *done = true;
            return 0;
        },
    .stream_captured =
        [](gpu_stream s, bool* captured) {
            *captured = at(s).capturing != nullptr;
            return 0;
        },
    .make_event =
        [](gpu_event* e) {
            *e = reinterpret_cast<gpu_event>(new event_state);
            return 0;
        },
    .drop_event =
        [](gpu_event e) {
            delete &at(e);
            return 0;
        },
    .record = record,
    .wait = wait,
    .event_done =
        [](gpu_event, bool* done) {
            *done = true;
            return 0;
        },
    .copy = [](void* to, const void* from, std::size_t bytes,
               gpu_stream s) { return put(s, [=] { std::memmove(to, from, bytes); }); },
    .write_value =
        [](gpu_stream, std::uint32_t* where, std::uint32_t value) {
            std::atomic_ref(*where).store(value, std::memory_order_release);
            return 0;
        },
    .wait_value = wait_value,
    .capture_mode = [](int*) { return 0; },
    .make_timer =
        [](gpu_event* e) {
            *e = reinterpret_cast<gpu_event>(new event_state);
            return 0;
        },
    .seconds_between = seconds_between,
    .begin_capture =
        [](gpu_stream s) {
            at(s).capturing = new graph;
            return 0;
        },
    .end_capture = end_capture,
    .launch = launch,
    .drop_graph =
        [](gpu_graph g) {
            delete reinterpret_cast<graph*>(g);
            return 0;
        },
    .nccl_error = [](int) { return "no NCCL here"; },
    .nccl_version = [](int* version) { return *version = 0; },
    .make_id = make_id,
    .make_comm = make_comm,
    .split = split,
    .status = [](nccl_comm, int* code) { return *code = 0; },
    .finalize = [](nccl_comm) { return 0; },
    .drop_comm = drop_comm,
    .abort = [](nccl_comm) { return 0; },
    .group_start =
        [] {
            ++group.depth;
            return 0;
        },
    .group_end = group_end,
    .send = send,
    .recv = recv,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .reduce = reduce,
    .combine = combine,
};
