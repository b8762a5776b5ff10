#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace terrace::detail {

/// An MPI for which Terrace has a module, terrace-LIBRARY.so, and a drop-in, LIBRARY/libterrace-pmpi.so.
struct known_mpi {
    std::string_view library;
    std::string_view name;          ///< usual name
    std::string_view version;       ///< part of its MPI_Get_library_version text; empty: any MPI may be behind it
    std::string_view package;       ///< package with the library, for messages
    std::string_view slurm;         ///< value of srun's --mpi= for its programs
    std::string_view launchers[3];  ///< launchers of its programs; the first one on the path is used
    std::string_view needed[3];     ///< libraries; its programs need one of them
};
// clang-format off
inline constexpr known_mpi known_mpis[] = {
    {"openmpi", "Open MPI", "Open MPI", "on Debian libopenmpi-dev", "pmix",
     {"mpirun.openmpi", "mpirun"}, {"libmpi.so.40", "libmpi_mpifh.so.40"}},
    {"mpich", "MPICH", "MPICH", "on Debian libmpich-dev", "pmi2",
     {"mpiexec.mpich", "mpiexec.hydra", "mpiexec"}, {"libmpich.so.12", "libmpichfort.so.12", "libmpi.so.12"}},
    {"mpiabi", "the standard ABI of MPI", "", "in PyPI's mpich; -Dmpi_abi=mpicc_abi", "pmi2",
     {"mpiexec.hydra", "mpiexec"}, {"libmpi_abi.so.1"}},
};
// clang-format on

/// Returns the row of a library; the first row if no row has this library.
constexpr const known_mpi& mpi_called(std::string_view library) noexcept {
    const auto* const found = std::ranges::find(known_mpis, library, &known_mpi::library);
    return found != std::end(known_mpis) ? *found : known_mpis[0];
}

}  // namespace terrace::detail
