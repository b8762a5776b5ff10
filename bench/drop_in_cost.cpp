// What a call that passes through the drop-in costs: MPI's own function and the intercepted one by turns, of one rank,
// for which an allreduce has nothing to wait for. Run it with the drop-in loaded: docs/guides/drop-in.md.

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <mpi.h>

namespace {

using call = decltype(&MPI_Allreduce);

double nanoseconds_of(call allreduce) {
    int mine = 1, sum = 0;
    const auto begin = std::chrono::steady_clock::now();
    allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double>& all) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
    return all[all.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    // Behind the drop-in, whatever is loaded.
    const char* library = nullptr;
#ifdef OMPI_MAJOR_VERSION
    library = "libmpi.so.40";
#else
    library = "libmpich.so.12";
#endif
    void* const mpi = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    const auto direct = mpi != nullptr ? reinterpret_cast<call>(dlsym(mpi, "PMPI_Allreduce")) : nullptr;
    if (direct == nullptr) {
        std::fprintf(stderr, "drop-in-cost: %s is not loaded\n", library);
        return 1;
    }
    constexpr int calls = 1'000'000;
    std::vector<double> by_mpi, intercepted;
    for (int i = 0; i < calls; ++i) {
        by_mpi.push_back(nanoseconds_of(direct));
        intercepted.push_back(nanoseconds_of(&MPI_Allreduce));
    }
    const double first = median(by_mpi), second = median(intercepted);
    std::printf(
        "MPI_Allreduce of 4 bytes on MPI_COMM_SELF, median of %d: MPI %.0f ns, as the program calls it %.0f ns "
        "(%+.0f ns)\n",
        calls, first, second, second - first);
    MPI_Finalize();
}
