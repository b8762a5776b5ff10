#pragma once

#include <cstdint>
#include <vector>

#include <mpi.h>

namespace drop_in {

inline int rank_in(MPI_Comm comm = MPI_COMM_WORLD) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

inline int size_of(MPI_Comm comm = MPI_COMM_WORLD) {
    int size = 0;
    MPI_Comm_size(comm, &size);
    return size;
}

/// Returns element i of a rank's input. Integers have any bits; floats are small whole numbers, whose sums are exact.
/// Short integers are small, since Open MPI does not let their sums wrap around.
template <class T>
T element(int rank, std::size_t i) {
    const std::uint64_t mixed = (static_cast<std::uint64_t>(rank) * 1'000'003 + i + 17) * 0x9e3779b97f4a7c15u;
    if constexpr (T(0.5) != T(0)) return static_cast<T>(static_cast<int>(mixed >> 60) - 7);
    else return static_cast<T>(mixed >> (sizeof(T) > 2 ? 7 : 61));
}

template <class T>
std::vector<T> elements(int rank, std::size_t count) {
    std::vector<T> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = element<T>(rank, i);
    return all;
}

/// Counts that tests use.
inline const std::vector<int> counts{1, 3, 1000, 70'001};

}  // namespace drop_in
