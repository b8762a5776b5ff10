#include "bench/smpi/smpi_network.hpp"

#include <memory>

#include "bench/smpi/send_queue.hpp"
#include "transport/mpi/mpi_bootstrap.hpp"
#include "transport/mpi/mpi_messages.hpp"
#include "transport/mpi/mpi_network.hpp"

namespace terrace::detail::bench {

namespace {

// Waits for messages where MPI's own tests for them, and sends those to one peer one after the other.
class smpi_messages final : public mpi_messages {
public:
    using mpi_messages::mpi_messages;

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override {
        if (waiting_.may_leave({slot, peer, tag, from, bytes})) mpi_messages::send(slot, peer, tag, from, bytes);
    }

    std::span<const int> poll() noexcept override { return completed(); }

    // MPI_Waitsome of SMPI asks about each request by itself, and keeps whatever it finds that way in a list of the
    // rank that it searches ever after: a run would take time by the square of its messages.
    void idle() noexcept override {
        int index = MPI_UNDEFINED;
        const int code = MPI_Waitany(static_cast<int>(requests().size()), requests().data(), &index, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && index == MPI_UNDEFINED) return;
        if (code == MPI_SUCCESS && posted_at(index).sends) waiting_.left(posted_at(index).peer);
        complete("MPI_Waitany", code, 1, {&index, 1});
        while (const auto next = waiting_.next())
            mpi_messages::send(next->slot, next->peer, next->tag, next->from, next->bytes);
    }

private:
    send_queue waiting_;
};

// A simulated network has no eager limit, and every piece takes a simulator's time.
network_traits smpi_traits() { return {.name = "mpi", .segment = 1 << 20, .spin_limit = 0}; }

class smpi_network final : public mpi_network {
public:
    explicit smpi_network(const std::shared_ptr<owned_comm>& world) : mpi_network(smpi_traits(), world) {}

    std::unique_ptr<messages> connect(team& ranks, int slots) override {
        return std::make_unique<smpi_messages>(traits(), world_, connected(ranks), slots);
    }
};

}  // namespace

connection join_smpi(MPI_Comm world) {
    const std::shared_ptr<owned_comm> own = copy_of(world);
    return {.net = std::make_shared<smpi_network>(own),
            .memory = nullptr,
            .ranks = team(std::make_shared<mpi_bootstrap>(own), own->rank(), own->size())};
}

}  // namespace terrace::detail::bench
