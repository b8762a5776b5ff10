// The module for MPI: the transport over the MPI that this file is compiled with.

#include "transport/mpi/mpi_module.hpp"

#include <mpi.h>
#include <sched.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#    include <mpi-ext.h>
#endif

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "base/wire.hpp"
#include "transport/bootstrap.hpp"
#include "transport/mpi/mpi_collectives.hpp"
#include "transport/mpi/mpi_messages.hpp"
#include "transport/mpi/owned.hpp"
#include "transport/mpi/ulfm.hpp"
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

// Ranks of a communicator that exchange values by messages. Each message carries its key, since a thread may receive
// messages for other threads of its rank.
class mpi_bootstrap final : public bootstrap {
public:
    // @param world_ranks as in `bootstrap`
    mpi_bootstrap(std::shared_ptr<owned_comm> world, std::vector<int> world_ranks)
        : bootstrap(this_node(), std::move(world_ranks)), world_(std::move(world)), rank_(world_->rank()) {}

    // Receives of an abandoned wait are never freed, since MPI may still write their data.
    ~mpi_bootstrap() override {
        if (!receives_.empty()) new std::list<receive>(std::move(receives_));
    }

    // An allgather in ceil(lg n) rounds (Bruck). In each round a rank sends all values that it has, or as many as the
    // receiver lacks.
    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                      const wait_hook& look) override {
        const int n = static_cast<int>(ranks.size());
        const int me = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
        const auto peer = [&](int distance) { return ranks[at(wrap(me + distance, n))]; };
        packed all;  // values of this rank and the ranks after it, cyclically
        all.add(value);
        for (int have = 1; have < n; have *= 2)
            all.add_all(swap(key, peer(-have), all.first(std::min(have, n - have)), peer(have), look));
        std::vector<std::string> in_order = all.values();
        std::rotate(in_order.begin(), in_order.end() - me, in_order.end());
        return in_order;
    }

private:
    struct receive {
        int from;
        std::string bytes;
        MPI_Request request;
    };

    // Sends a value to one rank, and returns the value from another rank.
    std::string swap(std::string_view key, int to, std::string_view bytes, int from, const wait_hook& look) {
        auto own = std::make_unique<std::string>(packed{key, bytes}.bytes());
        MPI_Request sent = MPI_REQUEST_NULL;
        check(MPI_Isend(own->data(), static_cast<int>(own->size()), MPI_BYTE, to, tag, world_->get(), &sent),
              "MPI_Isend");
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

    // Returns the value from a rank under this key, if it has arrived. Keeps values for other threads.
    std::optional<std::string> take(std::string_view key, int from) {
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

    const std::shared_ptr<owned_comm> world_;
    const int rank_;
    std::mutex guard_;  // guards all members below
    std::list<receive> receives_;
    std::map<std::string, std::map<int, std::string>, std::less<>> arrived_;  // by key and sender
};

// Queries MPI at run time. An MPI without such a query does not accept device memory.
bool accepts_device_memory() noexcept {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
    int is = 0;
    return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is) == MPI_SUCCESS && is != 0;
#else
    return false;
#endif
}

#ifdef OMPI_MAJOR_VERSION
constexpr const char* no_survivors = "";
#else
constexpr const char* no_survivors =
    "MPICH ends all ranks when one has died; use Open MPI under mpirun --enable-recovery, or UCX (terrace::ucx)";
#endif

int highest_tag() {
    int* bound = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found), "MPI_Comm_get_attr");
    return found ? *bound : 32767;  // minimum by the MPI standard
}

std::string one_thread() {
    int given = MPI_THREAD_MULTIPLE;
    MPI_Query_thread(&given);
    if (given == MPI_THREAD_MULTIPLE) return {};
    const char* level = given == MPI_THREAD_SINGLE     ? "MPI_THREAD_SINGLE"
                        : given == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                                       : "MPI_THREAD_SERIALIZED";
    return fmt::format("MPI was started with {}; ask MPI_Init_thread for MPI_THREAD_MULTIPLE", level);
}

numbered_comm shrunk(const owned_comm& comm, int size) {
    MPI_Comm made = MPI_COMM_NULL;
    check(ulfm::shrink(comm.get(), &made), "MPIX_Comm_shrink");
    numbered_comm all{std::make_shared<owned_comm>(made)};
    if (all.comm->size() == size) return all;
    throw transport_error("mpi", "MPIX_Comm_shrink", MPI_ERR_OTHER, "another rank has died meanwhile");
}

network_traits mpi_traits() {
    return {.name = "mpi",
            .segment = wire_segment,
            .highest_tag = highest_tag() - 1,  // the highest tag is for control messages
            .device_memory = accepts_device_memory(),
            .takes_shorter = true,
            .no_survivors = no_survivors,
            .one_thread = one_thread()};
}

// The ranks of an MPI communicator, connected over a copy of it.
class mpi_network final : public network {
public:
    mpi_network(std::shared_ptr<owned_comm> world, std::vector<std::shared_ptr<owned_comm>> reserve)
        : network(mpi_traits()), world_(std::move(world)), reserve_(std::move(reserve)) {}

    // Abandons the reserve with `world`, since freeing a communicator is collective.
    ~mpi_network() override {
        if (!world_->is_abandoned()) return;
        for (const auto& comm : reserve_) comm->abandon();
    }

    void lose(std::span<const int> failed, std::span<const int> dead) override {
        finalize_without_others();
        const std::lock_guard lock(guard_);
        failed_.insert(failed.begin(), failed.end());
        dead_.insert(dead.begin(), dead.end());
    }

    std::unique_ptr<messages> connect(team& ranks, int slots) override {
        return std::make_unique<mpi_messages>(traits(), world_, connected(ranks), slots, !reserve_.empty());
    }

    std::unique_ptr<stage_runner> own_collectives(team& ranks, std::span<const std::vector<int>> groups,
                                                  int lane_slots) override {
        std::unique_lock lock(guard_);
        const std::shared_ptr<owned_comm> comm = teams_.find(ranks.name())->second.comm.lock();
        lock.unlock();
        const bool all_used = comm->size() == ranks.size();
        return std::make_unique<detail::mpi_collectives>(
            numbered_comm{comm, all_used ? std::vector<int>() : ranks.members()}, ranks.rank(), groups, lane_slots);
    }

private:
    struct connected_team {
        std::weak_ptr<owned_comm> comm;
        std::vector<int> members;
    };

    // Returns the nearest team that contains this team. Its name is a prefix of this team's name.
    connected_team origin_of(const team& ranks) const {
        const std::lock_guard lock(guard_);
        for (std::string name = ranks.name(); !name.empty();) {
            name.resize(name.rfind('/'));
            const auto found = teams_.find(name);
            if (found != teams_.end() && !found->second.comm.expired()) return found->second;
        }
        return {world_, numbers_below(world_->size())};
    }

    bool lacks_only(const std::set<int>& lost, const team& ranks, std::vector<int> origin) const {
        const std::lock_guard lock(guard_);
        return std::erase_if(origin, [&](int rank) { return lost.contains(rank); }) > 0 && origin == ranks.members();
    }

    // Returns the next communicator that no rank has used. Each is used once: old messages may still be in flight.
    numbered_comm from_reserve(team& ranks) {
        std::unique_lock lock(guard_);
        int next = next_reserve_;
        lock.unlock();
        std::vector<int> all(at(ranks.size()));
        ranks.gather_all(&next, all.data(), sizeof next);
        next = *std::max_element(all.begin(), all.end());
        lock.lock();
        next_reserve_ = next + 1;
        if (next >= static_cast<int>(reserve_.size())) return {};
        reserve_[at(next)]->abandon();
        return {reserve_[at(next)], ranks.members()};
    }

    // Makes a communicator of the team's ranks. Collective over these. After a rank of a communicator has died, MPI
    // makes none of some of its ranks. MPI with ULFM makes one of all remaining ranks, in the same order.
    numbered_comm connected(team& ranks) {
        const connected_team origin = origin_of(ranks);
        const std::shared_ptr<owned_comm> from = origin.comm.lock();
        numbered_comm made;
        if (!reserve_.empty() && lacks_only(failed_, ranks, origin.members)) made = from_reserve(ranks);
        if (!made.comm && ulfm::is_there() && lacks_only(dead_, ranks, origin.members))
            made = shrunk(*from, ranks.size());
        if (!made.comm) made = {std::make_shared<owned_comm>(part_of(*from, *world_, ranks.members()))};
        const std::lock_guard lock(guard_);
        std::erase_if(teams_, [](const auto& team) { return team.second.comm.expired(); });
        teams_.insert_or_assign(ranks.name(), connected_team{made.comm, ranks.members()});
        return made;
    }

    const std::shared_ptr<owned_comm> world_;
    mutable std::mutex guard_;  // guards all members below
    std::map<std::string, connected_team> teams_;
    std::set<int> failed_, dead_;
    std::vector<std::shared_ptr<owned_comm>> reserve_;
    int next_reserve_ = 0;
};

std::shared_ptr<owned_comm> copy_of(MPI_Comm world) {
    MPI_Comm copy = MPI_COMM_NULL;
    check(MPI_Comm_split(world, 0, 0, &copy), "MPI_Comm_split");  // equal keys keep the order of ranks
    return std::make_shared<owned_comm>(copy);
}

// Returns ranks of MPI_COMM_WORLD. Empty if some ranks are not in it, since they were spawned.
std::vector<int> ranks_in_world(MPI_Comm comm, int size) {
    std::vector<int> ranks = numbers_below(size), in_world(at(size));
    MPI_Group own = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm, &own), "MPI_Comm_group");
    check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    check(MPI_Group_translate_ranks(own, size, ranks.data(), world, in_world.data()), "MPI_Group_translate_ranks");
    check(MPI_Group_free(&own), "MPI_Group_free");
    check(MPI_Group_free(&world), "MPI_Group_free");
    const bool all = std::ranges::find(in_world, MPI_UNDEFINED) == in_world.end();
    return all ? in_world : std::vector<int>{};
}

mpi_ranks join(const void* world, int reserve) {
    const std::shared_ptr<owned_comm> own = copy_of(*static_cast<const MPI_Comm*>(world));
    check(PMPI_Allreduce(MPI_IN_PLACE, &reserve, 1, MPI_INT, MPI_MIN, own->get()), "MPI_Allreduce");
    std::vector<std::shared_ptr<owned_comm>> copies;
    for (int i = 0; i < reserve; ++i) copies.push_back(copy_of(own->get()));
    return {.net = std::make_shared<mpi_network>(own, std::move(copies)),
            .boot = std::make_shared<mpi_bootstrap>(own, ranks_in_world(own->get(), own->size())),
            .rank = own->rank(),
            .size = own->size()};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mpi_module terrace_mpi_module{
    .head = {.version = header_version, .bytes = sizeof(mpi_module)},
    .join = join,
    .function = reinterpret_cast<void (*)()>(&MPI_Comm_rank),
};

}  // namespace terrace::detail
