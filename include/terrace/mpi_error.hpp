#pragma once

#include <terrace/export.hpp>

#include <mpi.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <terrace/mpi_world.hpp>

namespace terrace::detail {

inline std::string version_of_mpi() {
    char text[16384] = "";  // longer than any MPI's text; the constant of <mpi.h> may be of another MPI
    int length = 0;
    MPI_Get_library_version(text, &length);
    return text;
}

// Returns true if the program runs with another MPI than it was compiled with. Handles then have other meanings.
inline bool is_another_mpi() {
#if defined(OMPI_MAJOR_VERSION)
    return version_of_mpi().find("MPICH") != std::string::npos;
#elif !defined(MPICH_VERSION)
    return false;  // the standard ABI, which any MPI may provide
#else
    return version_of_mpi().find("Open MPI") != std::string::npos;
#endif
}

inline bool mpi_is_up() {
    int begun = 0, over = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    return begun && !over;
}

constexpr int error_tag = 32767;  // the highest tag that every MPI allows

inline bool error_message_comes(int from, std::chrono::milliseconds patience, MPI_Comm world, MPI_Status& status) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (int there = 0; !there; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
        MPI_Iprobe(from, error_tag, world, &there, &status);
        if (there) return true;
        if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
}

// On rank 0: receives errors of other ranks until none comes for half a second. Returns the text for all of them.
inline std::string gather_errors(std::string_view program, const std::string& what, int size, MPI_Comm world) {
    std::vector<std::pair<int, std::string>> said{{0, what}};
    MPI_Status status;
    while (static_cast<int>(said.size()) < size &&
           error_message_comes(MPI_ANY_SOURCE, std::chrono::milliseconds(500), world, status)) {
        int length = 0;
        MPI_Get_count(&status, MPI_CHAR, &length);
        std::string text(static_cast<std::size_t>(length), ' ');
        MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, error_tag, world, MPI_STATUS_IGNORE);
        MPI_Send(nullptr, 0, MPI_CHAR, status.MPI_SOURCE, error_tag, world);
        said.emplace_back(status.MPI_SOURCE, std::move(text));
    }
    return error_lines(program, said, size);
}

inline std::string send_error(std::string_view program, const std::string& what, int rank, int size, MPI_Comm world) {
    auto text = std::make_unique<std::string>(what);
    MPI_Request sent;
    MPI_Isend(text->data(), static_cast<int>(text->size()), MPI_CHAR, 0, error_tag, world, &sent);
    MPI_Status status;
    const bool heard = error_message_comes(0, std::chrono::milliseconds(1000), world, status);
    if (heard) {
        MPI_Recv(nullptr, 0, MPI_CHAR, 0, error_tag, world, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        std::this_thread::sleep_for(std::chrono::milliseconds(1000));  // rank 0 prints before any rank ends the job
        return "";
    }
    MPI_Request_free(&sent);
    static_cast<void>(text.release());  // MPI may still read the text
    return error_lines(program, {{rank, what}}, size);
}

inline std::string error_lines_of(std::string_view program, const std::string& what, MPI_Comm world) {
    if (is_another_mpi() || !mpi_is_up()) return error_lines(program, {{0, what}}, 1);
    int rank = 0, size = 1;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    const std::string text = what.substr(0, 2000);  // short enough to be sent before it is received
    return rank == 0 ? gather_errors(program, text, size, world) : send_error(program, text, rank, size, world);
}

}  // namespace terrace::detail

namespace terrace::mpi {

/// Returns the lines that this rank prints before MPI_Abort, after an error that ends the program: "terrace: ranks 0-3:
/// what\n". Rank 0 of `world` reports for all ranks whose errors reach it, until none comes for half a second. Those
/// ranks get an empty text a second later. A rank without an answer from rank 0 within a second reports for itself.
/// Ranks that have not failed need not call this.
inline std::string error_lines(MPI_Comm world, const std::exception& e) {
    return detail::error_lines_of("terrace", e.what(), world);
}

}  // namespace terrace::mpi
