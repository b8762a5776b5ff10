#include "transport/mpi/mpi_bootstrap.hpp"

#include <sched.h>

#include <algorithm>
#include <memory>
#include <utility>

#include <mpi.h>

#include "base/hash.hpp"
#include "base/index.hpp"
#include "base/partition.hpp"
#include "transport/packed.hpp"

namespace terrace::detail {

namespace {

// What an exchange that was given up has left must not meet a later one: each key has a tag of its own, as a rule.
int tag_of(std::string_view key) noexcept {
    constexpr std::uint64_t tags = 32768;  // which every MPI has
    return static_cast<int>(hash_of(key.data(), key.size()) % tags);
}

}  // namespace

// Sends to one rank and returns what comes from another.
std::string mpi_bootstrap::exchange(int tag, int to, std::string_view bytes, int from) const {
    const MPI_Comm comm = world_->get();
    auto own = std::make_unique<std::string>(bytes), got = std::make_unique<std::string>();
    MPI_Request sent = MPI_REQUEST_NULL, coming = MPI_REQUEST_NULL;
    const auto complete = [&](MPI_Request& request) {
        if (!looks()) check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
        else wait([&](int* over) { check(MPI_Test(&request, over, MPI_STATUS_IGNORE), "MPI_Test"); });
    };
    check(MPI_Isend(own->data(), static_cast<int>(own->size()), MPI_BYTE, to, tag, comm, &sent), "MPI_Isend");
    try {
        MPI_Status status;
        if (!looks()) check(MPI_Probe(from, tag, comm, &status), "MPI_Probe");
        else wait([&](int* there) { check(MPI_Iprobe(from, tag, comm, there, &status), "MPI_Iprobe"); });
        int length = 0;
        check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
        got->resize(at(length));
        check(MPI_Irecv(got->data(), length, MPI_BYTE, from, tag, comm, &coming), "MPI_Irecv");
        complete(coming);
        complete(sent);
        return std::move(*got);
    } catch (...) {
        own.release();  // NOLINT(bugprone-unused-return-value): MPI may still read it
        got.release();  // NOLINT(bugprone-unused-return-value): MPI may still write it
        throw;
    }
}

template <class Test>
void mpi_bootstrap::wait(Test test) const {
    int done = 0;
    for (test(&done); done == 0; test(&done)) {
        look();
        sched_yield();
    }
}

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
        all.add_all(exchange(tag_of(key), peer(-have), all.first(std::min(have, n - have)), peer(have)));
    std::map<int, std::string>& by_rank = values_[std::string(key)];
    for (int i = 0; i < n; ++i) by_rank.emplace(peer(i), all.value(i));
}

std::string mpi_bootstrap::get(int rank, std::string_view key) { return values_.find(key)->second.find(rank)->second; }

void mpi_bootstrap::forget(std::string_view key) noexcept { values_.erase(values_.find(key)); }

}  // namespace terrace::detail
