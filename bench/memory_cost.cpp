// What memory calls need, by the size of their messages: how far the heap of a rank grows, beside the caller's buffers,
// what it keeps, and what all ranks of this node have of /dev/shm. In MiB, of the rank with most.

#include "bench/costs.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace terrace::detail::bench {

namespace {

constexpr std::size_t mib = 1 << 20;

// Buffers as long as one likes, of one piece of memory that is mapped again and again: nobody looks at results.
std::byte* endless_memory(std::size_t bytes) {
    constexpr std::size_t piece = 64 * mib;
    const std::size_t pieces = bytes / piece + 1;
    const int file = memfd_create("buffers", 0);
    if (file < 0 || ftruncate(file, piece) != 0) throw error("memfd_create failed");
    auto* const all =
        static_cast<std::byte*>(mmap(nullptr, pieces * piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t n = 0; n < pieces; ++n)
        if (mmap(all + n * piece, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
            throw error("mmap failed");
    close(file);
    return all;
}

// Memory of the heap that is there now [bytes].
std::size_t heap() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (std::size_t kib = 0; word == "RssAnon:" && status >> kib) return kib * 1024;
    return 0;
}

// Memory of files in /dev/shm that this process has open, such as the communicators' regions [bytes].
std::size_t shared() {
    std::size_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code none;
        struct stat file {};
        const bool is_ours = std::filesystem::read_symlink(entry, none).string().starts_with("/dev/shm/");
        if (is_ours && stat(entry.path().c_str(), &file) == 0) bytes += 512 * static_cast<std::size_t>(file.st_blocks);
    }
    return bytes;
}

std::size_t most_while(const std::function<void()>& work) {
    std::atomic<bool> ends = false;
    std::atomic<std::size_t> most = 0;
    std::thread looks([&] {
        for (; !ends; usleep(1000)) most = std::max(most.load(), heap());
    });
    work();
    ends = true;
    looks.join();
    return most;
}

struct named_call {
    const char* name;
    std::function<void(communicator&, std::byte*, std::int64_t floats)> run;
};

// Counts that differ a little: those of the first half of the ranks are shorter.
std::vector<std::int64_t> counts_of(const communicator& comm, std::int64_t floats) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(comm.size()), floats / comm.size());
    for (std::size_t r = 0; r < counts.size() / 2; ++r) counts[r] -= 100;
    return counts;
}

const std::vector<named_call> calls{
    {"allreduce", [](communicator& c, std::byte* at,
                     std::int64_t n) { c.allreduce(at, at, n, element_type::float32, reduce_op::sum); }},
    {"broadcast", [](communicator& c, std::byte* at, std::int64_t n) { c.broadcast(at, n, element_type::float32, 0); }},
    {"reduce_scatter by counts",
     [](communicator& c, std::byte* at, std::int64_t n) {
         c.reduce_scatter(at, at + 4 * n, counts_of(c, n), element_type::float32, reduce_op::sum);
     }},
    {"allgather by counts",
     [](communicator& c, std::byte* at, std::int64_t n) {
         c.allgather(at + 4 * n, at, counts_of(c, n), element_type::float32);
     }},
    {"alltoall", [](communicator& c, std::byte* at,
                    std::int64_t n) { c.alltoall(at, at + 4 * n, n / c.size(), element_type::float32); }},
};

void print_needs(std::size_t bytes, const named_call& call) {
    const std::size_t before = heap(), others = shared();
    communicator comm = mpi::create(MPI_COMM_WORLD, options::from_environment());
    std::byte* const buffers = endless_memory(2 * bytes);
    const std::size_t created = heap();
    double seconds[2] = {};
    const std::size_t most = most_while([&] {
        for (double& s : seconds) s = time_of([&] { call.run(comm, buffers, static_cast<std::int64_t>(bytes / 4)); });
    });
    std::size_t seen[] = {created - std::min(before, created), most - std::min(created, most),
                          heap() - std::min(created, heap()), shared() - others};
    MPI_Allreduce(MPI_IN_PLACE, seen, 4, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    const auto in_mib = [](std::size_t n) { return static_cast<double>(n) / mib; };
    if (comm.rank() == 0)
        std::printf("%6.0f  %-25s %8.1f %8.1f %8.1f %8.1f   %8.3f %8.3f\n", in_mib(bytes), call.name, in_mib(seen[0]),
                    in_mib(seen[1]), in_mib(seen[2]), in_mib(seen[3]), seconds[0], seconds[1]);
    std::fflush(stdout);
    munmap(buffers, 2 * bytes);
}

}  // namespace

void memory(const given& g) {
    if (g.rank == 0)
        std::printf("   MiB  call                       created     peak     kept /dev/shm    first s  later s\n");
    for (const std::size_t bytes : g.numbers.empty() ? std::vector{mib, 16 * mib, 256 * mib, 2048 * mib} : g.numbers) {
        if (bytes < mib) throw usage_error("messages of less than 1048576 bytes hide in what a process has anyway");
        for (const named_call& call : calls) print_needs(bytes, call);
    }
}

}  // namespace terrace::detail::bench
