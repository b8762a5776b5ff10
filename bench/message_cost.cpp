// What messages between two ranks cost beside MPI's: half a round trip between ranks 0 and the last, and all ranks
// sending to the next one as nccl-tests' sendrecv does. Medians by turns.
//
//   mpirun -np N message-cost PLAN [BYTES ...]

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

#include "bench/cost_program.hpp"

namespace {

using namespace terrace::detail::bench;

constexpr int turns = 201, in_a_row = 10;

class pair_of_buffers {
public:
    explicit pair_of_buffers(int bytes)
        : out_(static_cast<std::size_t>(bytes)), in_(static_cast<std::size_t>(bytes)), bytes_(bytes) {}

    // Both libraries make the same calls.
    void exchange(terrace::communicator& comm, int to, int from) {
        terrace::request sent = comm.send_async(out_.data(), bytes_, terrace::element_type::uint8, to, 0);
        comm.recv(in_.data(), bytes_, terrace::element_type::uint8, from, 0);
        sent.wait();
    }
    void exchange(MPI_Comm comm, int to, int from) {
        MPI_Request sent = MPI_REQUEST_NULL;
        MPI_Isend(out_.data(), bytes_, MPI_BYTE, to, 0, comm, &sent);
        MPI_Recv(in_.data(), bytes_, MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
    void send(terrace::communicator& comm, int to) {
        comm.send(out_.data(), bytes_, terrace::element_type::uint8, to, 0);
    }
    void send(MPI_Comm comm, int to) { MPI_Send(out_.data(), bytes_, MPI_BYTE, to, 0, comm); }
    void recv(terrace::communicator& comm, int from) {
        comm.recv(in_.data(), bytes_, terrace::element_type::uint8, from, 0);
    }
    void recv(MPI_Comm comm, int from) { MPI_Recv(in_.data(), bytes_, MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE); }

private:
    std::vector<std::byte> out_, in_;
    int bytes_;
};

template <class Comm>
double ping_pong(Comm&& comm, pair_of_buffers& b, int rank, int last) {
    return time_of(
               [&] {
                   if (rank == 0) {
                       b.send(comm, last);
                       b.recv(comm, last);
                   } else if (rank == last) {
                       b.recv(comm, 0);
                       b.send(comm, 0);
                   }
               },
               in_a_row) /
           2;
}

void measure(terrace::communicator& comm, int bytes) {
    pair_of_buffers b(bytes);
    const int me = comm.rank(), n = comm.size(), next = (me + 1) % n, previous = (me + n - 1) % n;
    std::array<std::vector<double>, 4> times;
    for (int turn = 0; turn < turns; ++turn) {
        times[0].push_back(ping_pong(comm, b, me, n - 1));
        times[1].push_back(ping_pong(MPI_COMM_WORLD, b, me, n - 1));
        times[2].push_back(time_of([&] { b.exchange(comm, next, previous); }, in_a_row));
        times[3].push_back(time_of([&] { b.exchange(MPI_COMM_WORLD, next, previous); }, in_a_row));
    }
    if (me != 0) return;
    std::printf("%10d", bytes);
    for (const auto& t : times) std::printf(" %10.2f %8.3f", median(t) * 1e6, bytes / median(t) / 1e9);
    std::printf("\n");
}

void print_costs(const char* plan_file, std::vector<int> sizes) {
    terrace::communicator comm = on_any_machine(plan_file);
    if (sizes.empty()) sizes = {8, 1024, 8192, 65'536, 1 << 20, 4 << 20};
    if (comm.rank() == 0)
        std::printf(
            "messages of %d ranks, us and GB/s (algbw, which is busbw): median of %d, the slowest rank's\n"
            "%10s %19s %19s %19s %19s\n",
            comm.size(), turns, "bytes", "ping-pong", "mpi", "sendrecv", "mpi");
    for (const int bytes : sizes) measure(comm, bytes);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    return run_cost_program(argc >= 2, "message-cost PLAN [BYTES ...]", [&] {
        std::vector<int> sizes;
        for (int i = 2; i < argc; ++i) sizes.push_back(std::max(std::atoi(argv[i]), 1));
        print_costs(argv[1], sizes);
    });
}
