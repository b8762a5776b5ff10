#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace terrace::detail::pmpi {

/// The intercepted calls, one for each row of calls.def.
enum class call_kind : std::uint8_t {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) name,
#include "pmpi/calls.def"
};

inline constexpr std::string_view call_names[] = {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) #name,
#include "pmpi/calls.def"
};
inline constexpr std::size_t call_kinds = sizeof call_names / sizeof call_names[0];

/// The functions of a call: MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init.
enum class form : std::uint8_t { blocking, started, persistent };
inline constexpr std::size_t forms = 3;

constexpr std::string_view to_string(call_kind k) noexcept { return call_names[static_cast<std::size_t>(k)]; }

namespace traits {
inline constexpr unsigned none = 0, reduces = 1, rooted = 2, passes = 4;
inline constexpr unsigned of_call[] = {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) traits,
#include "pmpi/calls.def"
};
constexpr bool has(call_kind k, unsigned trait) noexcept { return (of_call[static_cast<std::size_t>(k)] & trait) != 0; }
}  // namespace traits

constexpr bool reduces(call_kind k) noexcept { return traits::has(k, traits::reduces); }
constexpr bool has_root(call_kind k) noexcept { return traits::has(k, traits::rooted); }

/// Returns true if MPI runs all calls of this kind.
constexpr bool passes(call_kind k) noexcept { return traits::has(k, traits::passes); }

/// Returns false if ranks need not agree on the number of bytes, or no bytes move.
constexpr bool has_size(call_kind k) noexcept {
    return k != call_kind::barrier && k != call_kind::alltoallv && !passes(k);
}

}  // namespace terrace::detail::pmpi
