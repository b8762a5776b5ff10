#include "transport/shm/node_stages.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

#include "base/partition.hpp"

namespace terrace {

namespace {

constexpr std::size_t page = 4096;

range whole_of(const stage_group& g) { return {g.shards.front().begin, g.shards.back().end}; }

void wait_on(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
    // Not for long: what is in flight elsewhere must be moved along, and a peer may have died.
    const timespec time{0, 500'000};
    syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) noexcept {
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

node_stages::node_stages(int rank, std::vector<int> position, shared_region arena, int slots, std::size_t slot_bytes)
    : me_(position[static_cast<std::size_t>(rank)]),
      position_(std::move(position)),
      slots_(slots),
      slot_bytes_(slot_bytes),
      inputs_(arena.parts.size()) {
    regions_.push_back(std::move(arena));
}

// bell, cells, then slots on pages.
std::size_t node_stages::arena_bytes(int slots, std::size_t slot_bytes) noexcept {
    const std::size_t n = static_cast<std::size_t>(slots);
    return round_up(sizeof(bell) + n * sizeof(cell), page) + n * round_up(slot_bytes, page);
}

node_stages::bell& node_stages::bell_of(int part) const noexcept {
    return *reinterpret_cast<bell*>(regions_.front().parts[static_cast<std::size_t>(part)]);
}

node_stages::cell& node_stages::cell_of(int part, int lane_slot) const noexcept {
    return reinterpret_cast<cell*>(regions_.front().parts[static_cast<std::size_t>(part)] + sizeof(bell))[lane_slot];
}

std::span<std::byte> node_stages::lane_memory(int lane_slot) noexcept {
    const std::size_t cells = round_up(sizeof(bell) + static_cast<std::size_t>(slots_) * sizeof(cell), page);
    return {regions_.front().parts[static_cast<std::size_t>(me_)] + cells +
                static_cast<std::size_t>(lane_slot) * round_up(slot_bytes_, page),
            slot_bytes_};
}

void node_stages::add(shared_region more) { regions_.push_back(std::move(more)); }

void node_stages::remove(const std::byte* part) noexcept {
    std::erase_if(regions_, [&](const shared_region& r) { return r.parts[static_cast<std::size_t>(me_)] == part; });
}

bool node_stages::holds(const std::byte* memory, std::size_t bytes) const noexcept {
    return std::any_of(regions_.begin(), regions_.end(), [&](const shared_region& r) {
        const std::byte* mine = r.parts[static_cast<std::size_t>(me_)];
        return memory >= mine && memory + bytes <= mine + r.bytes;
    });
}

const std::byte* node_stages::at_peer(int part, const std::byte* mine) const noexcept {
    if (part == me_) return mine;
    for (const shared_region& r : regions_) {
        const std::byte* first = r.parts[static_cast<std::size_t>(me_)];
        if (mine >= first && mine <= first + r.bytes) return r.parts[static_cast<std::size_t>(part)] + (mine - first);
    }
    return nullptr;
}

std::uint64_t node_stages::ticket(const stage_call& c, progress p) const noexcept {
    return c.turn << 22 | static_cast<std::uint64_t>(c.channel) << 2 | p;
}

void node_stages::announce(const stage_call& c, progress p) noexcept {
    cell_of(me_, c.lane_slot).ticket.store(ticket(c, p), std::memory_order_seq_cst);
    for (int rank : c.group->members) {
        bell& peer = bell_of(part_of(rank));
        if (part_of(rank) == me_ || peer.asleep.load(std::memory_order_seq_cst) == 0) continue;
        peer.rings.fetch_add(1, std::memory_order_seq_cst);
        wake(peer.rings);
    }
}

void node_stages::start(int slot, const stage_call& call) noexcept {
    active a{.slot = slot, .call = call};
    announce(call, arrived);
    active_.push_back(a);
}

void node_stages::poll(std::vector<int>& done) noexcept {
    std::erase_if(active_, [&](active& a) {
        if (!step(a)) return false;
        done.push_back(a.slot);
        return true;
    });
}

// Who gets nothing from a peer, and gives it nothing, need not wait for it.
bool node_stages::awaits(const active& a, std::size_t peer) const noexcept {
    const stage_group& g = *a.call.group;
    const auto root = static_cast<std::size_t>(g.root), me = static_cast<std::size_t>(g.position);
    if (peer == me) return false;
    const bool before = a.waits_for == arrived;
    if (a.call.what == action::stage_reduce) return before ? me == root : peer == root;
    if (a.call.what == action::stage_broadcast) return before ? peer == root : me == root;
    return true;
}

bool node_stages::peers_reached(active& a) noexcept {
    for (; a.seen < a.call.group->members.size(); ++a.seen)
        if (!reached(a, a.seen)) return false;
    a.seen = 0;
    return true;
}

bool node_stages::reached(const active& a, std::size_t peer) const noexcept {
    if (!awaits(a, peer)) return true;
    const cell& c = cell_of(part_of(a.call.group->members[peer]), a.call.lane_slot);
    return c.ticket.load(std::memory_order_acquire) >= ticket(a.call, a.waits_for);
}

std::vector<int> node_stages::missing(int slot) const {
    std::vector<int> ranks;
    for (const active& a : active_)
        for (std::size_t peer = 0; peer < a.call.group->members.size() && a.slot == slot; ++peer)
            if (!reached(a, peer)) ranks.push_back(a.call.group->members[peer]);
    return ranks;
}

// True once the stage is complete.
bool node_stages::step(active& a) noexcept {
    while (peers_reached(a)) {
        if (a.waits_for == finished) return true;
        if (a.waits_for == arrived) {
            a.waits_for = work(a.call);
        } else {
            const stage_group& g = *a.call.group;
            for (int i = 0; i < static_cast<int>(g.members.size()); ++i)
                copy_from(a.call, i, g.shards[static_cast<std::size_t>(i)]);
            a.waits_for = finished;
        }
        announce(a.call, a.waits_for);
    }
    return false;
}

// Does what needs only that peers have arrived. Returns how far that leads.
node_stages::progress node_stages::work(const stage_call& c) noexcept {
    const stage_group& g = *c.group;
    const auto shard = [&](int i) { return g.shards[static_cast<std::size_t>(i)]; };
    const int n = static_cast<int>(g.members.size());
    switch (c.what) {
        case action::stage_reduce_scatter: reduce_shard(c, shard(g.position), c.dst); break;
        case action::stage_allgather:
            for (int i = 0; i < n; ++i) copy_from(c, wrap(g.position + i, n), shard(wrap(g.position + i, n)));
            break;
        case action::stage_reduce:
            if (g.position == g.root) reduce_shard(c, whole_of(g), c.dst);
            break;
        case action::stage_broadcast: copy_from(c, g.root, whole_of(g)); break;
        default:
            // In place, nobody may write what others still read.
            if (c.sharded || c.dst == c.src) {
                reduce_shard(c, shard(g.position), c.src);
                return reduced;
            }
            reduce_shard(c, whole_of(g), c.dst);
    }
    return finished;
}

void node_stages::reduce_shard(const stage_call& c, range shard, const std::byte* to) noexcept {
    if (shard.empty()) return;
    const std::size_t offset = static_cast<std::size_t>(shard.begin) * c.element;
    const std::vector<int>& members = c.group->members;
    for (std::size_t i = 0; i < members.size(); ++i)
        inputs_[i] = (part_of(members[i]) == me_ ? c.own : at_peer(part_of(members[i]), c.src)) + offset;
    c.reduce(const_cast<std::byte*>(to) + offset, inputs_.data(), static_cast<int>(members.size()), shard.count(),
             c.divisor);
}

void node_stages::copy_from(const stage_call& c, int member, range part) noexcept {
    const std::size_t offset = static_cast<std::size_t>(part.begin) * c.element;
    const std::byte* from = at_peer(part_of(c.group->members[static_cast<std::size_t>(member)]), c.src) + offset;
    std::byte* to = c.dst + offset;
    if (from != to) std::memcpy(to, from, static_cast<std::size_t>(part.count()) * c.element);
}

bool node_stages::sleep() noexcept {
    bell& mine = bell_of(me_);
    const std::uint32_t seen = mine.rings.load(std::memory_order_seq_cst);
    mine.asleep.store(1, std::memory_order_seq_cst);
    const bool ready = std::any_of(active_.begin(), active_.end(), [&](active a) { return peers_reached(a); });
    if (!ready) wait_on(mine.rings, seen);
    mine.asleep.store(0, std::memory_order_relaxed);
    return !ready;
}

}  // namespace terrace
