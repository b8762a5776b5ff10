#include "transport/shm/shm_stages.hpp"

#include <sched.h>

#include <array>
#include <fstream>
#include <utility>
#include <vector>

#include "base/hosts.hpp"
#include "base/index.hpp"
#include "transport/shm/node_peers.hpp"
#include "transport/shm/node_stages.hpp"

namespace terrace::detail {

namespace {

// A machine, independent of host names of containers, and the cores that a rank may run on there.
struct cpu_set {
    std::array<char, 36> boot{};  // boot id of the kernel
    cpu_set_t cores;
};

cpu_set own_cpu_set() {
    cpu_set own;
    if (!std::ifstream("/proc/sys/kernel/random/boot_id").read(own.boot.data(), own.boot.size()))
        host_name().copy(own.boot.data(), own.boot.size());
    CPU_ZERO(&own.cores);
    if (sched_getaffinity(0, sizeof own.cores, &own.cores) != 0) CPU_SET(0, &own.cores);  // more cores than a set holds
    return own;
}

// Returns true if this rank's machine has more ranks of the team, in all containers together, than cores on which these
// ranks may run. Collective. @throws transport_error
bool is_oversubscribed(team& ranks) {
    const cpu_set own = own_cpu_set();
    std::vector<cpu_set> all(at(ranks.size()));
    ranks.gather_all(&own, all.data(), sizeof own);
    std::erase_if(all, [&](const cpu_set& s) { return s.boot != own.boot; });
    cpu_set_t together;
    CPU_ZERO(&together);
    for (const cpu_set& s : all) CPU_OR(&together, &together, &s.cores);
    return static_cast<int>(all.size()) > CPU_COUNT(&together);
}

// A sleep costs a system call here and one in the peer that wakes this rank, each of several microseconds.
constexpr int yields_before_sleep = 16;

class shm_stages final : public node_stages {
public:
    shm_stages(connection& by, std::vector<int> nodes, node_peers peers, shared_region arena, int slots,
               std::size_t slot_bytes, bool oversubscribed)
        : node_stages(by.ranks.rank(), std::move(peers.position), std::move(arena), slots, slot_bytes, oversubscribed),
          by_(by),
          peers_(std::move(peers.ranks)) {
        can_ = {.stages = ~0u, .domain = std::move(nodes), .slot_bytes = slot_bytes, .slots = slots};
        // A peer with a core of its own answers within about a microsecond, the cost of an idle wait. A peer that waits
        // for this core answers once it runs.
        spin_limit_ = oversubscribed ? 2 : 500;
    }

    void poll(std::vector<int>& done) noexcept override {
        node_stages::poll(done);
        if (!done.empty()) waits_ = 0;
    }
    std::shared_ptr<std::byte> allocate_window(std::size_t bytes) override {
        std::optional<shared_region> region = by_.memory->share(by_.ranks, peers_, node_memory::window_bytes(bytes));
        return region ? add_window(std::move(*region)) : nullptr;
    }
    // Yields first to ranks on the same core. Later waits sleep, and let the caller poll messages.
    bool wait() noexcept override {
        if (!sleeps() || idle()) return true;
        if (++waits_ > yields_before_sleep) return sleep();
        sched_yield();
        return false;
    }

private:
    connection& by_;
    const std::vector<int> peers_;
    int waits_ = 0;  // waits since the last completion
};

}  // namespace

std::unique_ptr<node_stage_runner> make_shm_stages(connection& by, int slots, std::size_t slot_bytes) {
    std::vector<int> nodes = by.ranks.nodes();
    if (most_on_a_node(nodes) < 2) return nullptr;
    node_peers peers = peers_of(nodes, by.ranks.rank());
    std::optional<shared_region> arena = by.memory->share(
        by.ranks, peers.ranks, node_memory::arena_bytes(slots, slot_bytes), node_memory::bytes_at_once(slots));
    if (!arena) return nullptr;
    const bool oversubscribed = is_oversubscribed(by.ranks);
    return std::make_unique<shm_stages>(by, std::move(nodes), std::move(peers), std::move(*arena), slots, slot_bytes,
                                        oversubscribed);
}

}  // namespace terrace::detail
