#include "transport/mpi/mpi_bootstrap.hpp"

#include <algorithm>
#include <utility>

#include <mpi.h>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "transport/packed.hpp"

namespace terrace::detail {

namespace {

constexpr int tag = 0;

// Sends to one rank and returns what comes from another.
std::string exchange(MPI_Comm comm, int to, std::string_view bytes, int from) {
    MPI_Request sent = MPI_REQUEST_NULL;
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, comm, &sent), "MPI_Isend");
    MPI_Status status;
    check(MPI_Probe(from, tag, comm, &status), "MPI_Probe");
    int length = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
    std::string got(at(length), '\0');
    check(MPI_Recv(got.data(), length, MPI_BYTE, from, tag, comm, MPI_STATUS_IGNORE), "MPI_Recv");
    check(MPI_Wait(&sent, MPI_STATUS_IGNORE), "MPI_Wait");
    return got;
}

}  // namespace

mpi_bootstrap::mpi_bootstrap(std::shared_ptr<owned_comm> world)
    : bootstrap(this_node()), world_(std::move(world)), rank_(world_->rank()) {}

// An allgather in ceil(lg n) rounds (Bruck): in each a rank passes on all values that it has, or as many as are
// missing.
void mpi_bootstrap::put(std::span<const int> ranks, std::string_view key, std::string_view value) {
    const int n = static_cast<int>(ranks.size());
    const int me = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    const auto peer = [&](int distance) { return ranks[at(wrap(me + distance, n))]; };
    packed all;  // of this rank and those behind it
    all.add(value);
    for (int have = 1; have < n; have *= 2)
        all.add_all(exchange(world_->get(), peer(-have), all.first(std::min(have, n - have)), peer(have)));
    std::map<int, std::string>& by_rank = values_[std::string(key)];
    for (int i = 0; i < n; ++i) by_rank.emplace(peer(i), all.value(i));
}

std::string mpi_bootstrap::get(int rank, std::string_view key) { return values_.find(key)->second.find(rank)->second; }

void mpi_bootstrap::forget(std::string_view key) noexcept { values_.erase(values_.find(key)); }

}  // namespace terrace::detail
