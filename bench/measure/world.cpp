#include "bench/measure/world.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/mpi.hpp>

#include "api/over_mpi.hpp"
#include "transport/agreement.hpp"
#include "transport/cores.hpp"

namespace terrace::detail::bench {

namespace {

std::vector<int> lowest_on_host(int rank, int size) {
    MPI_Comm host = MPI_COMM_NULL;
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    int lowest = rank;
    check(MPI_Bcast(&lowest, 1, MPI_INT, 0, host), "MPI_Bcast");
    check(MPI_Comm_free(&host), "MPI_Comm_free");
    std::vector<int> all(static_cast<std::size_t>(size));
    check(MPI_Allgather(&lowest, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
    return all;
}

std::string text_from(int speaker, std::string text) {
    int length = static_cast<int>(text.size());
    check(MPI_Bcast(&length, 1, MPI_INT, speaker, MPI_COMM_WORLD), "MPI_Bcast");
    text.resize(static_cast<std::size_t>(length));
    check(MPI_Bcast(text.data(), length, MPI_CHAR, speaker, MPI_COMM_WORLD), "MPI_Bcast");
    return text;
}

}  // namespace

void check(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw transport_error("mpi", call, code, text);
}

world::world(int& argc, char**& argv) {
    // Stages over MPI between devices have a thread of their own.
    const bool devices = std::any_of(argv, argv + argc, [](std::string_view a) { return a.starts_with("--device"); });
    int provided = 0;
    check(MPI_Init_thread(&argc, &argv, devices ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided),
          "MPI_Init_thread");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    library_ = name_in(version_of_mpi());
    hosts_ = lowest_on_host(rank_, size_);
}

world::~world() { MPI_Finalize(); }

int world::host_count() const { return static_cast<int>(std::set<int>(hosts_.begin(), hosts_.end()).size()); }

int world::shared_cores() const {
    connection all = over_mpi(world_of(MPI_COMM_WORLD), {});
    return terrace::detail::shared_cores(all.ranks);
}

void world::barrier() const { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

double world::maximum(double mine) const {
    maximum(std::span<double>(&mine, 1));
    return mine;
}

void world::maximum(std::span<double> mine) const {
    check(MPI_Allreduce(MPI_IN_PLACE, mine.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
          "MPI_Allreduce");
}

std::int64_t world::sum(std::int64_t mine) const {
    check(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    return mine;
}

std::string world::from_first(std::string text) const { return text_from(0, std::move(text)); }

void world::abort(int code) const {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::abort();
}

void world::agree(bool fine, const std::string& message) const {
    std::vector<int> failed(static_cast<std::size_t>(size_));
    const int mine = !fine;
    check(MPI_Allgather(&mine, 1, MPI_INT, failed.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
    std::vector<std::size_t> who;
    for (std::size_t r = 0; r < failed.size(); ++r)
        if (failed[r]) who.push_back(r);
    if (who.empty()) return;
    // Where the first rank fails, all most likely do, or it is the only one that tried: the rank is of no interest.
    std::string text = who.front() == 0 ? message : fmt::format("{}: {}", ranks_named(who), message);
    throw refusal(text_from(static_cast<int>(who.front()), std::move(text)));
}

}  // namespace terrace::detail::bench
