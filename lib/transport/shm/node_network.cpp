#include "transport/shm/node_network.hpp"

#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "transport/shm/node_messages.hpp"
#include "transport/shm/node_peers.hpp"

namespace terrace::detail {

namespace {

// A random number in a rank's memory, and its address. In another process with the same process id, the read fails or
// finds another number.
struct probe {
    pid_t pid = 0;
    std::uint64_t* address = nullptr;
    std::uint64_t value = 0;
};

bool can_read(const probe& p) noexcept {
    std::uint64_t found = 0;
    const iovec here{&found, sizeof found}, there{p.address, sizeof found};
    return p.value != 0 && process_vm_readv(p.pid, &here, 1, &there, 1, 0) == sizeof found && found == p.value;
}

// Adds the process ids of the node's ranks if each rank may read the memory of the next. All pairs then may. Containers
// and Yama (ptrace_scope) may forbid reads. Collective.
void look_for_readable(team& ranks, node_messages::node& node) {
    std::uint64_t value = 0;
    if (::getrandom(&value, sizeof value, 0) != sizeof value) value = 0;
    const probe own{::getpid(), &value, value};
    std::vector<probe> all(at(ranks.size()));
    ranks.gather_all(&own, all.data(), sizeof own);
    const int next = wrap(node.peers.position[at(ranks.rank())] + 1, static_cast<int>(node.peers.ranks.size()));
    const char can = can_read(all[at(node.peers.ranks[at(next)])]);
    std::vector<char> each(all.size());
    ranks.gather_all(&can, each.data(), sizeof can);  // all ranks have read `value` now
    const auto read = [&](int r) { return each[at(r)] != 0; };
    if (std::all_of(node.peers.ranks.begin(), node.peers.ranks.end(), read))
        for (const int r : node.peers.ranks) node.pids.push_back(all[at(r)].pid);
    node.all_read = std::find(each.begin(), each.end(), 0) == each.end();
}

network_traits without_node_memory(network_traits t) {
    t.by_node_memory = false;
    return t;
}

class node_network final : public network {
public:
    node_network(std::shared_ptr<network> outside, std::shared_ptr<region_source> memory)
        : network(without_node_memory(outside->traits())), outside_(std::move(outside)), memory_(std::move(memory)) {}

    std::unique_ptr<messages> connect(team& ranks, int slots) override {
        std::unique_ptr<messages> outside = outside_->connect(ranks, slots);
        const std::vector<int> nodes = ranks.nodes();
        const int most = most_on_a_node(nodes);
        if (most < 2) return outside;
        node_peers peers = peers_of(nodes, ranks.rank());
        std::optional<shared_region> memory =
            memory_->share(ranks, peers.ranks, node_messages::part_bytes(most, slots));
        if (!memory) return outside;
        node_messages::node on{std::move(peers), std::move(*memory), node_messages::ring_capacity(most), {}};
        look_for_readable(ranks, on);
        return std::make_unique<node_messages>(std::move(outside), ranks.rank(), std::move(on), slots);
    }

    std::unique_ptr<stage_runner> own_collectives(team& ranks, std::span<const std::vector<int>> groups,
                                                  int lane_slots) override {
        return outside_->own_collectives(ranks, groups, lane_slots);
    }
    void lose(std::span<const int> failed, std::span<const int> dead) override { outside_->lose(failed, dead); }

private:
    const std::shared_ptr<network> outside_;
    const std::shared_ptr<region_source> memory_;
};

}  // namespace

std::shared_ptr<network> with_node_messages(std::shared_ptr<network> outside, std::shared_ptr<region_source> memory) {
    return std::make_shared<node_network>(std::move(outside), std::move(memory));
}

}  // namespace terrace::detail
