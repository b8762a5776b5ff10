// What an exchange of messages between two ranks costs with new requests and with persistent ones: medians by turns.
//
//   mpirun -np 2 request-cost [BYTES ...]

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>

namespace {

constexpr int turns = 3000;

class exchange {
public:
    explicit exchange(int bytes) : bytes_(bytes), sent_(at_least_one(bytes)), received_(at_least_one(bytes)) {
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        peer_ = 1 - rank;
        MPI_Recv_init(received_.data(), bytes_, MPI_BYTE, peer_, 0, MPI_COMM_WORLD, &persistent_[0]);
        MPI_Send_init(sent_.data(), bytes_, MPI_BYTE, peer_, 0, MPI_COMM_WORLD, &persistent_[1]);
    }
    exchange(const exchange&) = delete;
    exchange& operator=(const exchange&) = delete;
    ~exchange() {
        for (MPI_Request& r : persistent_) MPI_Request_free(&r);
    }

    void with_new_requests() {
        std::array<MPI_Request, 2> both;
        MPI_Irecv(received_.data(), bytes_, MPI_BYTE, peer_, 0, MPI_COMM_WORLD, &both[0]);
        MPI_Isend(sent_.data(), bytes_, MPI_BYTE, peer_, 0, MPI_COMM_WORLD, &both[1]);
        MPI_Waitall(2, both.data(), MPI_STATUSES_IGNORE);
    }
    void with_persistent_requests() {
        MPI_Startall(2, persistent_.data());
        MPI_Waitall(2, persistent_.data(), MPI_STATUSES_IGNORE);
    }

private:
    static std::size_t at_least_one(int bytes) { return static_cast<std::size_t>(std::max(bytes, 1)); }

    int bytes_, peer_ = 0;
    std::vector<std::byte> sent_, received_;
    std::array<MPI_Request, 2> persistent_;
};

// us
double median(std::vector<double> times) {
    std::nth_element(times.begin(), times.begin() + turns / 2, times.end());
    return times[turns / 2] * 1e6;
}

void measure(int bytes) {
    exchange e(bytes);
    std::vector<double> with_new, with_persistent;
    const auto timed = [](std::vector<double>& times, auto&& what) {
        const double start = MPI_Wtime();
        what();
        times.push_back(MPI_Wtime() - start);
    };
    for (int turn = 0; turn < turns; ++turn) {
        timed(with_new, [&] { e.with_new_requests(); });
        timed(with_persistent, [&] { e.with_persistent_requests(); });
    }
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) std::printf("%10d %10.3f %10.3f\n", bytes, median(with_new), median(with_persistent));
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int ranks = 0, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (ranks != 2) {
        std::fprintf(stderr, "usage: mpirun -np 2 request-cost [BYTES ...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    std::vector<int> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
    if (sizes.empty()) sizes = {8, 4096, 49152};
    if (rank == 0)
        std::printf("exchange of two ranks, us: median of %d\n%10s %10s %10s\n", turns, "bytes", "new", "persistent");
    for (const int bytes : sizes) measure(bytes);
    MPI_Finalize();
}
