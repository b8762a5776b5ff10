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

/// The element i that a rank passes in: any bits of the type. Of floats small whole numbers, whose sums are exact, and
/// small numbers of short integers, whose sums Open MPI does not let wrap around.
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

/// The counts that calls are tried with.
inline const std::vector<int> counts{1, 3, 1000, 70'001};

}  // namespace drop_in
