#include "pmpi/datatypes.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/keep_for_ever.hpp"

namespace terrace::detail::pmpi {

namespace {

struct known_type {
    MPI_Datatype mpi;
    element_type element;
};

template <class Integer>
constexpr element_type integer() noexcept {
    using enum element_type;
    constexpr element_type with_sign[] = {int8, int16, int32, int64}, without[] = {uint8, uint16, uint32, uint64};
    constexpr int place = std::countr_zero(sizeof(Integer));
    return std::is_signed_v<Integer> ? with_sign[place] : without[place];
}

// Handles of Open MPI are addresses that are only known at run time. Types that this MPI lacks are null.
std::vector<known_type> make_known_types() {
    std::vector<known_type> all{
        {MPI_DOUBLE, element_type::float64},
        {MPI_FLOAT, element_type::float32},
        {MPI_INT, integer<int>()},
        {MPI_LONG, integer<long>()},
        {MPI_LONG_LONG, integer<long long>()},
        {MPI_SHORT, integer<short>()},
        {MPI_SIGNED_CHAR, element_type::int8},
        {MPI_UNSIGNED, integer<unsigned>()},
        {MPI_UNSIGNED_LONG, integer<unsigned long>()},
        {MPI_UNSIGNED_LONG_LONG, integer<unsigned long long>()},
        {MPI_UNSIGNED_SHORT, integer<unsigned short>()},
        {MPI_UNSIGNED_CHAR, element_type::uint8},
        {MPI_INT8_T, element_type::int8},
        {MPI_INT16_T, element_type::int16},
        {MPI_INT32_T, element_type::int32},
        {MPI_INT64_T, element_type::int64},
        {MPI_UINT8_T, element_type::uint8},
        {MPI_UINT16_T, element_type::uint16},
        {MPI_UINT32_T, element_type::uint32},
        {MPI_UINT64_T, element_type::uint64},
        {MPI_AINT, integer<MPI_Aint>()},
        {MPI_OFFSET, integer<MPI_Offset>()},
        {MPI_COUNT, integer<MPI_Count>()},
        {MPI_C_FLOAT_COMPLEX, element_type::complex64},
        {MPI_C_DOUBLE_COMPLEX, element_type::complex128},
    };
    // The sizes of Fortran's kinds depend on the compiler of this MPI.
    struct by_kind {
        MPI_Datatype mpi;
        element_type four, eight;
        int parts;
    };
    using enum element_type;
    for (const by_kind& k :
         {by_kind{MPI_INTEGER, int32, int64, 1}, by_kind{MPI_REAL, float32, float64, 1},
          by_kind{MPI_DOUBLE_PRECISION, float32, float64, 1}, by_kind{MPI_COMPLEX, complex64, complex128, 2},
          by_kind{MPI_DOUBLE_COMPLEX, complex64, complex128, 2}}) {
        if (k.mpi == MPI_DATATYPE_NULL) continue;
        const std::int64_t part = size_of_type(k.mpi) / k.parts;
        if (part == 4) all.push_back({k.mpi, k.four});
        if (part == 8) all.push_back({k.mpi, k.eight});
    }
    for (const known_type& t :
         {known_type{MPI_INTEGER1, int8}, known_type{MPI_INTEGER2, int16}, known_type{MPI_INTEGER4, int32},
          known_type{MPI_INTEGER8, int64}, known_type{MPI_REAL4, float32}, known_type{MPI_REAL8, float64},
          known_type{MPI_COMPLEX8, complex64}, known_type{MPI_COMPLEX16, complex128}})
        if (t.mpi != MPI_DATATYPE_NULL) all.push_back(t);
    return all;
}

}  // namespace

std::optional<element_type> element_of(MPI_Datatype type) {
    static const auto& all = kept_for_ever(make_known_types());
    const auto found = std::find_if(all.begin(), all.end(), [&](const known_type& t) { return t.mpi == type; });
    if (found == all.end()) return {};
    return found->element;
}

std::optional<reduce_op> operation_of(MPI_Op op) noexcept {
    using enum reduce_op;
    static const std::pair<MPI_Op, reduce_op> all[] = {{MPI_SUM, sum},   {MPI_MAX, max}, {MPI_MIN, min},
                                                       {MPI_PROD, prod}, {MPI_BOR, bor}, {MPI_BAND, band},
                                                       {MPI_BXOR, bxor}};
    for (const auto& [mpi, known] : all)
        if (mpi == op) return known;
    return {};
}

std::int64_t size_of_type(MPI_Datatype type) noexcept {
    MPI_Count size = 0;
    PMPI_Type_size_x(type, &size);
    return size;
}

type_layout layout_of(MPI_Datatype type) noexcept {
    MPI_Aint low = 0, extent = 0;
    int integers = 0, addresses = 0, types = 0, combiner = 0;
    PMPI_Type_get_extent(type, &low, &extent);
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    const std::int64_t size = size_of_type(type);
    return {.size = size, .extent = extent, .dense = combiner == MPI_COMBINER_NAMED && low == 0 && size == extent};
}

}  // namespace terrace::detail::pmpi
