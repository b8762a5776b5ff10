// Reductions of an MPI program, compared with a serial reduction: with the drop-in and without it.

#include <algorithm>
#include <complex>
#include <functional>
#include <numeric>
#include <type_traits>

#include <gtest/gtest.h>

#include "drop_in/ranks.hpp"

namespace drop_in {

namespace {

// In a reduce-scatter in place, MPICH 4.0.2 and 5.0.2 copy memory onto itself, and end the program.
#ifdef OMPI_MAJOR_VERSION
constexpr bool scatters_in_place = true;
#else
constexpr bool scatters_in_place = false;
#endif

// Returns the result of an operation; integers wrap around.
template <class T>
T combined(MPI_Op op, T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        if (op == MPI_SUM) return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
        if (op == MPI_PROD)
            return static_cast<T>(static_cast<std::uint64_t>(static_cast<U>(a)) *
                                  static_cast<std::uint64_t>(static_cast<U>(b)));
        if (op == MPI_BAND) return static_cast<T>(a & b);
        if (op == MPI_BOR) return static_cast<T>(a | b);
        if (op == MPI_BXOR) return static_cast<T>(a ^ b);
        if (op == MPI_LAND) return static_cast<T>(a != 0 && b != 0);
    }
    if (op == MPI_SUM) return static_cast<T>(a + b);
    if (op == MPI_PROD) return static_cast<T>(a * b);
    if constexpr (requires { a < b; }) return op == MPI_MIN ? std::min(a, b) : std::max(a, b);
    return a;
}

template <class T>
std::vector<T> reduced(MPI_Op op, int ranks, std::size_t count) {
    std::vector<T> all = elements<T>(0, count);
    for (int r = 1; r < ranks; ++r)
        for (std::size_t i = 0; i < count; ++i) all[i] = combined(op, all[i], element<T>(r, i));
    return all;
}

template <class T>
void expect_reductions(MPI_Datatype type, const std::vector<MPI_Op>& ops) {
    const int rank = rank_in(), ranks = size_of();
    for (const MPI_Op op : ops)
        for (const int n : counts) {
            const auto count = static_cast<std::size_t>(n);
            const std::vector<T> mine = elements<T>(rank, count), all = reduced<T>(op, ranks, count);
            std::vector<T> got(count), in_place = mine;
            MPI_Allreduce(mine.data(), got.data(), n, type, op, MPI_COMM_WORLD);
            MPI_Allreduce(MPI_IN_PLACE, in_place.data(), n, type, op, MPI_COMM_WORLD);
            EXPECT_TRUE(got == all && in_place == all) << "allreduce of " << n;
            // In place the root is rank 0, since MPICH 4.0.2 crashes with other roots.
            const int root = ranks - 1;
            in_place = mine;
            std::fill(got.begin(), got.end(), T(0));
            MPI_Reduce(mine.data(), rank == root ? got.data() : nullptr, n, type, op, root, MPI_COMM_WORLD);
            MPI_Reduce(rank == 0 ? MPI_IN_PLACE : in_place.data(), rank == 0 ? in_place.data() : nullptr, n, type, op,
                       0, MPI_COMM_WORLD);
            EXPECT_TRUE(rank != root || got == all) << "reduce of " << n;
            EXPECT_TRUE(rank != 0 || in_place == all) << "reduce in place of " << n;
        }
}

}  // namespace

TEST(reductions, of_integers) {
    const std::vector<MPI_Op> ops{MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND};
    expect_reductions<int>(MPI_INT, ops);
    expect_reductions<std::int8_t>(MPI_INT8_T, ops);
    expect_reductions<std::uint16_t>(MPI_UINT16_T, ops);
    expect_reductions<std::int64_t>(MPI_LONG_LONG, ops);
    expect_reductions<std::uint64_t>(MPI_UINT64_T, ops);
    expect_reductions<MPI_Aint>(MPI_AINT, {MPI_SUM, MPI_MAX});
}

TEST(reductions, of_floats) {
    expect_reductions<float>(MPI_FLOAT, {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD});
    expect_reductions<double>(MPI_DOUBLE, {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD});
    expect_reductions<long double>(MPI_LONG_DOUBLE, {MPI_SUM});
    expect_reductions<std::complex<float>>(MPI_C_FLOAT_COMPLEX, {MPI_SUM, MPI_PROD});
    expect_reductions<std::complex<double>>(MPI_C_DOUBLE_COMPLEX, {MPI_SUM, MPI_PROD});
}

TEST(reductions, of_types_of_fortran) {
    if (MPI_INTEGER == MPI_DATATYPE_NULL) GTEST_SKIP() << "this MPI has no Fortran";
    expect_reductions<int>(MPI_INTEGER, {MPI_SUM, MPI_MAX});
    expect_reductions<float>(MPI_REAL, {MPI_SUM});
    expect_reductions<double>(MPI_DOUBLE_PRECISION, {MPI_SUM});
    expect_reductions<std::complex<double>>(MPI_DOUBLE_COMPLEX, {MPI_SUM});
}

TEST(reductions, in_blocks) {
    const int rank = rank_in(), ranks = size_of();
    for (const int n : counts) {
        std::vector<int> lengths(static_cast<std::size_t>(ranks));
        for (int r = 0; r < ranks; ++r) lengths[static_cast<std::size_t>(r)] = r == 1 ? 0 : n + r;
        for (const bool even : {false, true}) {
            if (even) std::fill(lengths.begin(), lengths.end(), n);
            const auto count = static_cast<std::size_t>(std::reduce(lengths.begin(), lengths.end()));
            const auto begin = std::reduce(lengths.begin(), lengths.begin() + rank);
            const std::vector<int> mine = elements<int>(rank, count), all = reduced<int>(MPI_SUM, ranks, count);
            const int own = lengths[static_cast<std::size_t>(rank)];
            const std::vector<int> expected(all.begin() + begin, all.begin() + begin + own);
            std::vector<int> got(static_cast<std::size_t>(own)), in_place = mine;
            if (even) {
                MPI_Reduce_scatter_block(mine.data(), got.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                if (scatters_in_place)
                    MPI_Reduce_scatter_block(MPI_IN_PLACE, in_place.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            } else {
                MPI_Reduce_scatter(mine.data(), got.data(), lengths.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                if (scatters_in_place)
                    MPI_Reduce_scatter(MPI_IN_PLACE, in_place.data(), lengths.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            }
            in_place.resize(static_cast<std::size_t>(own));
            EXPECT_TRUE(got == expected) << n;
            EXPECT_TRUE(!scatters_in_place || in_place == expected) << n;
        }
    }
}

// Calls that MPI runs: user-defined operations, MPI_MAXLOC, intercommunicators, no elements, one rank.
TEST(passed_on, operations_and_pairs) {
    const int rank = rank_in(), ranks = size_of();
    MPI_Op second = MPI_OP_NULL;
    MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 0, &second);
    int mine = rank + 5, got = 0;
    MPI_Allreduce(&mine, &got, 1, MPI_INT, second, MPI_COMM_WORLD);
    EXPECT_EQ(got, ranks - 1 + 5);
    MPI_Op_free(&second);
    struct {
        double value;
        int where;
    } pair{static_cast<double>(rank), rank}, most{};
    MPI_Allreduce(&pair, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    EXPECT_EQ(most.where, ranks - 1);
}

TEST(passed_on, nothing_and_one_rank) {
    EXPECT_EQ(MPI_Allreduce(nullptr, nullptr, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
    int mine = 3, got = 0;
    MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    EXPECT_EQ(got, 3);
}

TEST(passed_on, between_two_groups) {
    const int rank = rank_in(), ranks = size_of();
    if (ranks < 2) GTEST_SKIP();
    const bool low = rank < ranks / 2;
    MPI_Comm own = MPI_COMM_NULL, between = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, low ? ranks / 2 : 0, 7, &between);
    int mine = rank, got = 0;
    MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_SUM, between);
    int of_others = 0;
    for (int r = 0; r < ranks; ++r)
        if ((r < ranks / 2) != low) of_others += r;
    EXPECT_EQ(got, of_others);
    MPI_Comm_free(&between);
    MPI_Comm_free(&own);
}

// MPI reports an invalid argument on its rank, by the communicator's error handler; later calls work.
TEST(invalid_arguments, are_reported_by_mpi) {
#ifndef OMPI_MAJOR_VERSION
    GTEST_SKIP() << "MPICH of Debian and of PyPI is built without checks, and crashes";
#endif
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int mine = 1, got = 0, kind = 0;
    const auto class_of = [&](int code) {
        MPI_Error_class(code, &kind);
        return kind;
    };
    EXPECT_EQ(class_of(MPI_Allreduce(&mine, &got, -1, MPI_INT, MPI_SUM, comm)), MPI_ERR_COUNT);
    EXPECT_NE(MPI_Allreduce(&mine, &got, 1, MPI_DATATYPE_NULL, MPI_SUM, comm), MPI_SUCCESS);
    EXPECT_EQ(class_of(MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_OP_NULL, comm)), MPI_ERR_OP);
    EXPECT_EQ(class_of(MPI_Bcast(&mine, 1, MPI_INT, size_of(), comm)), MPI_ERR_ROOT);
    EXPECT_EQ(MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    EXPECT_EQ(got, size_of());
    MPI_Comm_free(&comm);
}

}  // namespace drop_in
