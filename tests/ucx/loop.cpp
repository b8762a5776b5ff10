// A rank of a job without MPI: makes allreduces, and prints how many were right, and its listening and other sockets.
//
// usage: ucx_loop CALLS COUNT [shm]       TERRACE_* as for every program

#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include <terrace/ucx.hpp>

namespace {

// Returns the number of TCP sockets of this process that listen, or do not.
int sockets(bool listening) {
    int found = 0;
    for (int fd = 0; fd < static_cast<int>(sysconf(_SC_OPEN_MAX)) && fd < 4096; ++fd) {
        int is = 0, domain = 0;
        socklen_t bytes = sizeof is;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &bytes) != 0) continue;
        bytes = sizeof domain;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || (domain != AF_INET && domain != AF_INET6))
            continue;
        found += (is != 0) == listening;
    }
    return found;
}

}  // namespace

int main(int argc, char** argv) {
    const int calls = argc > 1 ? std::atoi(argv[1]) : 1, count = argc > 2 ? std::atoi(argv[2]) : 1000;
    try {
        terrace::options o = terrace::options::from_environment();
        o.shared_memory = argc > 3;
        terrace::communicator comm = terrace::ucx::create(o);
        std::vector<float> data(static_cast<std::size_t>(count));
        int right = 0;
        for (int call = 0; call < calls; ++call) {
            for (int i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = static_cast<float>(i % 7 + comm.rank());
            comm.allreduce(data);
            bool all = true;
            const int ranks = comm.size();
            for (int i = 0; i < count; ++i) {
                const int sum = i % 7 * ranks + ranks * (ranks - 1) / 2;
                all = all && data[static_cast<std::size_t>(i)] == static_cast<float>(sum);
            }
            right += all;
            if (call == 0) fmt::print("rank {} runs\n", comm.rank());
            if (call == 0) std::fflush(stdout);
        }
        fmt::print("rank {} of {}: {} right, {} listening, {} connected\n", comm.rank(), comm.size(), right,
                   sockets(true), sockets(false));
        return right == calls ? 0 : 2;
    } catch (const terrace::error& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
}
