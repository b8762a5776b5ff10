#include "transport/mpi/mpi_bootstrap.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include <mpi.h>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "transport/packed.hpp"

namespace terrace::detail {

namespace {

constexpr int tag = 0;

bool is_over(MPI_Request& request) {
    int over = 0;
    check(MPI_Test(&request, &over, MPI_STATUS_IGNORE), "MPI_Test");
    return over != 0;
}

template <class Done>
void wait(const wait_hook& look, const Done& done) {
    while (!done()) {
        if (look) look();
        sched_yield();
    }
}

}  // namespace

mpi_bootstrap::mpi_bootstrap(std::shared_ptr<owned_comm> world, std::vector<int> world_ranks)
    : bootstrap(this_node(), std::move(world_ranks)), world_(std::move(world)), rank_(world_->rank()) {}

// MPI may still write what a wait that was given up has left.
mpi_bootstrap::~mpi_bootstrap() {
    if (!receives_.empty()) new std::list<receive>(std::move(receives_));
}

// An allgather in ceil(lg n) rounds (Bruck): in each a rank passes on all values that it has, or as many as are
// missing.
std::vector<std::string> mpi_bootstrap::exchange(std::span<const int> ranks, std::string_view key,
                                                 std::string_view value, const wait_hook& look) {
    const int n = static_cast<int>(ranks.size());
    const int me = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    const auto peer = [&](int distance) { return ranks[at(wrap(me + distance, n))]; };
    packed all;  // of this rank and those behind it
    all.add(value);
    for (int have = 1; have < n; have *= 2)
        all.add_all(swap(key, peer(-have), all.first(std::min(have, n - have)), peer(have), look));
    std::vector<std::string> in_order = all.values();
    std::rotate(in_order.begin(), in_order.end() - me, in_order.end());
    return in_order;
}

// Sends to one rank and returns what comes from another.
std::string mpi_bootstrap::swap(std::string_view key, int to, std::string_view bytes, int from, const wait_hook& look) {
    packed message;
    message.add(key);
    message.add(bytes);
    auto own = std::make_unique<std::string>(message.bytes());
    MPI_Request sent = MPI_REQUEST_NULL;
    check(MPI_Isend(own->data(), static_cast<int>(own->size()), MPI_BYTE, to, tag, world_->get(), &sent), "MPI_Isend");
    try {
        std::optional<std::string> got;
        wait(look, [&] { return (got = take(key, from)).has_value(); });
        wait(look, [&] { return is_over(sent); });
        return std::move(*got);
    } catch (...) {
        own.release();  // NOLINT(bugprone-unused-return-value): MPI may still read it
        throw;
    }
}

// Returns what has come from a rank under this key, and keeps what has come for other threads.
std::optional<std::string> mpi_bootstrap::take(std::string_view key, int from) {
    const std::lock_guard lock(guard_);
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(from, tag, world_->get(), &there, &status), "MPI_Iprobe");
    if (there != 0) {
        int length = 0;
        check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
        receive& next = receives_.emplace_back(receive{from, std::string(at(length), '\0'), MPI_REQUEST_NULL});
        check(MPI_Irecv(next.bytes.data(), length, MPI_BYTE, from, tag, world_->get(), &next.request), "MPI_Irecv");
    }
    receives_.remove_if([&](receive& r) {
        if (r.from != from || !is_over(r.request)) return false;
        const packed message(r.bytes);
        arrived_[std::string(message.value(0))][from] = message.value(1);
        return true;
    });
    const auto found = arrived_.find(key);
    if (found == arrived_.end() || !found->second.contains(from)) return {};
    std::optional<std::string> value = std::move(found->second.at(from));
    if (found->second.erase(from); found->second.empty()) arrived_.erase(found);
    return value;
}

}  // namespace terrace::detail
