// NCCL's functions by MPI, for gpu_module.cpp.

#include "support/gpu_module.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <mpi.h>

#include "kernels/reduce.hpp"

namespace terrace::detail::test::gpu_module {

namespace {

struct comm_state {
    MPI_Comm comm = MPI_COMM_NULL;
};

struct {
    int depth = 0;
    gpu_stream stream = nullptr;
    std::vector<work> messages;
} group;  // open group
std::vector<MPI_Request> requests;

MPI_Comm at(nccl_comm c) { return reinterpret_cast<comm_state*>(c)->comm; }

}  // namespace

int split(nccl_comm comm, int color, int key, nccl_comm* part) {
    auto* made = new comm_state;
    MPI_Comm_split(at(comm), color < 0 ? MPI_UNDEFINED : color, key, &made->comm);
    *part = reinterpret_cast<nccl_comm>(color < 0 ? nullptr : made);
    return 0;
}

namespace {

// An id consists of the process that made it, and of the number of ids that this process had made before.
struct id_content {
    char mark[8];
    int process, number;
};
constexpr char id_mark[8] = "standin";

}  // namespace

int make_id(nccl_id* id) {
    static int made = 0;
    id_content content{{}, static_cast<int>(getpid()), made++};
    std::memcpy(content.mark, id_mark, sizeof id_mark);
    std::memcpy(id->bytes, &content, sizeof content);
    return 0;
}

// Returns whether no other rank has this rank's NCCL_HOSTID, which is read once. NCCL refuses two ranks of one host on
// one device.
bool has_own_host(MPI_Comm comm) {
    static const std::size_t own = [] {
        const char* named = std::getenv("NCCL_HOSTID");
        return std::hash<std::string_view>{}(named != nullptr ? named : "");
    }();
    int ranks = 0;
    MPI_Comm_size(comm, &ranks);
    std::vector<std::size_t> all(static_cast<std::size_t>(ranks));
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, comm);
    return std::count(all.begin(), all.end(), own) == 1;
}

// All processes of mpirun call this together; equal ids get one communicator. Initializes MPI (SERIALIZED) if needed.
int make_comm(nccl_comm* comm, int, const nccl_id* id, int rank, bool blocking) {
    constexpr int invalid_argument = 4, invalid_usage = 5, most = 1 << 24;
    id_content content{};
    std::memcpy(&content, id->bytes, sizeof content);
    if (std::memcmp(content.mark, id_mark, sizeof id_mark) != 0) return invalid_argument;
    int up = 0, provided = 0;
    MPI_Initialized(&up);
    if (up == 0) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    auto* made = new comm_state;
    MPI_Comm_split(MPI_COMM_WORLD, (content.process * 64 + content.number) % most, rank, &made->comm);
    if (!has_own_host(made->comm)) return invalid_usage;
    *comm = reinterpret_cast<nccl_comm>(made);
    return blocking ? 0 : gpu_runtime::in_progress;
}

int drop_comm(nccl_comm c) {
    MPI_Comm_free(&reinterpret_cast<comm_state*>(c)->comm);
    delete reinterpret_cast<comm_state*>(c);
    return 0;
}

int group_start() {
    ++group.depth;
    return 0;
}

// Starts the group's messages together, and waits for all of them.
int group_end() {
    if (--group.depth > 0 || group.messages.empty()) return 0;
    return put(group.stream, [messages = std::exchange(group.messages, {})] {
        for (const work& start : messages) start();
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        requests.clear();
    });
}

namespace {

int message(gpu_stream s, work start) {
    group.stream = s;
    group.messages.push_back(std::move(start));
    return 0;
}

}  // namespace

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

namespace {

// Reduces all ranks' `count` elements, and copies `wanted` results from `first` on to `to`.
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

}  // namespace

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

}  // namespace terrace::detail::test::gpu_module
