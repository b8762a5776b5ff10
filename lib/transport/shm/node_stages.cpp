#include "transport/shm/node_stages.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

#include "base/copy.hpp"
#include "base/partition.hpp"

namespace terrace {

namespace {

constexpr std::size_t page = 4096, line = 64;
constexpr std::size_t tile_bytes = 8192;

std::size_t offset(const stage_call& c, range part) { return static_cast<std::size_t>(part.begin) * c.element; }

void wait_on(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
    // Not for long: what is in flight elsewhere must be moved along, and a peer may have died.
    const timespec time{0, 500'000};
    syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) noexcept {
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

node_stages::node_stages(int rank, std::vector<int> position, shared_region arena, int slots, std::size_t slot_bytes,
                         bool sleeps)
    : me_(position[static_cast<std::size_t>(rank)]),
      position_(std::move(position)),
      slots_(slots),
      slot_bytes_(slot_bytes),
      sleeps_(sleeps),
      readers_(static_cast<std::size_t>(slots)),
      through_(arena.parts.size()),
      inputs_(arena.parts.size()) {
    for (readers& r : readers_) r.ranks.reserve(arena.parts.size());
    regions_.push_back(std::make_shared<region>());
    regions_.front()->bytes = arena.bytes;
    regions_.front()->memory = std::move(arena);
}

// bell, cells, then slots on pages.
std::size_t node_stages::arena_bytes(int slots, std::size_t slot_bytes) noexcept {
    const std::size_t n = static_cast<std::size_t>(slots);
    return round_up(sizeof(bell) + n * sizeof(cell), page) + n * round_up(slot_bytes, page);
}

node_stages::bell& node_stages::bell_of(int part) const noexcept {
    return *reinterpret_cast<bell*>(regions_.front()->memory.parts[static_cast<std::size_t>(part)]);
}

node_stages::cell& node_stages::cell_of(int part, int lane_slot) const noexcept {
    return reinterpret_cast<cell*>(regions_.front()->memory.parts[static_cast<std::size_t>(part)] +
                                   sizeof(bell))[lane_slot];
}

std::byte* node_stages::lane_memory(int lane_slot, std::size_t bytes) noexcept {
    if (cell& mine = cell_of(me_, lane_slot); bytes <= mine.few.size()) return mine.few.data();
    const std::size_t cells = round_up(sizeof(bell) + static_cast<std::size_t>(slots_) * sizeof(cell), page);
    return regions_.front()->memory.parts[static_cast<std::size_t>(me_)] + cells +
           static_cast<std::size_t>(lane_slot) * round_up(slot_bytes_, page);
}

// The memory, and a line of its own for the count of ranks that have freed it, which is in the first part.
std::size_t node_stages::window_bytes(std::size_t bytes) noexcept { return round_up(bytes, line) + line; }

std::shared_ptr<std::byte> node_stages::add_window(shared_region memory) {
    // What all have freed goes now.
    std::erase_if(regions_, [](const std::shared_ptr<region>& r) {
        return r->freed != nullptr && r->freed->load(std::memory_order_acquire) == r->memory.parts.size();
    });
    const auto made = std::make_shared<region>();
    made->number = ++windows_;
    made->bytes = memory.bytes - line;
    made->freed = reinterpret_cast<std::atomic<std::uint32_t>*>(memory.parts.front() + made->bytes);
    made->memory = std::move(memory);
    regions_.push_back(made);
    std::byte* mine = made->memory.parts[static_cast<std::size_t>(me_)];
    return {mine, [r = made](std::byte*) {
                r->in_use.store(false, std::memory_order_relaxed);
                r->freed->fetch_add(1, std::memory_order_acq_rel);
            }};
}

bool node_stages::reachable(const std::byte* memory, std::size_t bytes) const noexcept {
    return std::any_of(regions_.begin() + 1, regions_.end(), [&](const std::shared_ptr<region>& r) {
        const std::byte* mine = r->memory.parts[static_cast<std::size_t>(me_)];
        return memory >= mine && memory + bytes <= mine + r->bytes && r->in_use.load(std::memory_order_relaxed);
    });
}

node_stages::place node_stages::place_of(const std::byte* mine) const noexcept {
    for (const std::shared_ptr<region>& r : regions_) {
        const std::byte* first = r->memory.parts[static_cast<std::size_t>(me_)];
        if (mine >= first && mine <= first + r->bytes)
            return r->number << offset_bits | static_cast<std::uint64_t>(mine - first);
    }
    return nowhere;
}

std::byte* node_stages::at(const stage_call& c, int member, place p) const noexcept {
    const auto part = static_cast<std::size_t>(part_of(c.group->members[static_cast<std::size_t>(member)]));
    for (const std::shared_ptr<region>& r : regions_)
        if (r->number == region_of(p)) return r->memory.parts[part] + offset_of(p);
    return nullptr;
}

std::uint64_t node_stages::ticket(const stage_call& c, progress p) const noexcept {
    return c.turn << 22 | static_cast<std::uint64_t>(c.channel) << 2 | p;
}

void node_stages::announce(const stage_call& c, progress p) noexcept {
    if (c.streams) end_streams();
    std::atomic<std::uint64_t>& mine = cell_of(me_, c.lane_slot).ticket;
    if (!sleeps_) return mine.store(ticket(c, p), std::memory_order_release);
    mine.store(ticket(c, p), std::memory_order_seq_cst);
    for (int rank : c.group->members) {
        bell& peer = bell_of(part_of(rank));
        if (part_of(rank) == me_ || peer.asleep.load(std::memory_order_seq_cst) == 0) continue;
        if (peer.asleep.exchange(0, std::memory_order_seq_cst) == 0) continue;  // woken already
        peer.rings.fetch_add(1, std::memory_order_seq_cst);
        wake(peer.rings);
    }
}

void node_stages::start(int slot, const stage_call& call) noexcept {
    const place src = place_of(call.src), dst = call.dst == call.src ? src : place_of(call.dst);
    cell& mine = cell_of(me_, call.lane_slot);
    mine.src = src;
    mine.dst = dst;
    mine.through = call.through;
    announce(call, arrived);
    active_.push_back({slot, &call, src, dst});
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
    const stage_group& g = *a.call->group;
    const auto root = static_cast<std::size_t>(g.root), me = static_cast<std::size_t>(g.position);
    if (peer == me) return false;
    const bool before = a.waits_for == arrived;
    if (a.call->what == action::stage_reduce) return before ? me == root : peer == root;
    if (a.call->what == action::stage_broadcast) return before ? peer == root : me == root;
    return true;
}

bool node_stages::peers_reached(active& a) noexcept {
    for (; a.seen < a.call->group->members.size(); ++a.seen)
        if (!reached(a, a.seen)) return false;
    a.seen = 0;
    return true;
}

bool node_stages::reached(const active& a, std::size_t peer) const noexcept {
    if (!awaits(a, peer)) return true;
    const cell& c = cell_of(part_of(a.call->group->members[peer]), a.call->lane_slot);
    return c.ticket.load(std::memory_order_acquire) >= ticket(*a.call, a.waits_for);
}

// How far peers are altogether: their cells of other slots need not be fetched to know it.
void node_stages::learn(const active& a) noexcept {
    for (std::size_t peer = 0; peer < a.call->group->members.size(); ++peer) {
        if (!awaits(a, peer)) continue;
        const int part = part_of(a.call->group->members[peer]);
        std::uint64_t& known = through_[static_cast<std::size_t>(part)];
        known = std::max(known, cell_of(part, a.call->lane_slot).through);
    }
}

std::vector<int> node_stages::missing(int slot) const {
    std::vector<int> ranks;
    for (const active& a : active_)
        for (std::size_t peer = 0; peer < a.call->group->members.size() && a.slot == slot; ++peer)
            if (!reached(a, peer)) ranks.push_back(a.call->group->members[peer]);
    return ranks;
}

// True once the stage is complete.
bool node_stages::step(active& a) noexcept {
    while (peers_reached(a)) {
        if (a.waits_for == finished) return true;
        if (a.waits_for == arrived) {
            learn(a);
            a.waits_for = work(a);
        } else {
            for (int i = 0; i < static_cast<int>(a.call->group->members.size()); ++i)
                copy_from(*a.call, i, result_of(a, i));
            a.waits_for = finished;
        }
        announce(*a.call, a.waits_for);
        if (a.waits_for == finished && leave(a)) return true;
    }
    return false;
}

// Whether the stage is over here although peers still read what this rank gives: that is in the lane's slot, where it
// can stay until the slot is used again.
bool node_stages::leave(const active& a) noexcept {
    const auto in_slot = [](place p) { return region_of(p) == 0; };
    if (!a.call->last || !in_slot(a.src) || (a.dst != nowhere && !in_slot(a.dst))) return false;
    readers& r = readers_[static_cast<std::size_t>(a.call->lane_slot)];
    r.ticket = ticket(*a.call, finished);
    r.call = a.call->number;
    r.ranks.clear();
    for (std::size_t peer = 0; peer < a.call->group->members.size(); ++peer)
        if (awaits(a, peer)) r.ranks.push_back(a.call->group->members[peer]);
    return true;
}

bool node_stages::has_read(const readers& r, int lane_slot, int rank) const noexcept {
    return through_[static_cast<std::size_t>(part_of(rank))] >= r.call ||
           cell_of(part_of(rank), lane_slot).ticket.load(std::memory_order_acquire) >= r.ticket;
}

bool node_stages::lane_ready(int lane_slot) noexcept {
    readers& r = readers_[static_cast<std::size_t>(lane_slot)];
    std::erase_if(r.ranks, [&](int rank) { return has_read(r, lane_slot, rank); });
    r.awaited = !r.ranks.empty();
    return r.ranks.empty();
}

std::vector<int> node_stages::lane_readers(int lane_slot) const {
    const readers& r = readers_[static_cast<std::size_t>(lane_slot)];
    std::vector<int> ranks = r.ranks;
    std::erase_if(ranks, [&](int rank) { return has_read(r, lane_slot, rank); });
    return ranks;
}

// Does what needs only that peers have arrived. Returns how far that leads.
node_stages::progress node_stages::work(const active& a) noexcept {
    const stage_call& c = *a.call;
    const stage_group& g = *c.group;
    const range own = g.shards[static_cast<std::size_t>(g.position)];
    const int n = static_cast<int>(g.members.size());
    const auto given_by = [&](int member) { return at(c, member, src_of(a, member)); };
    switch (c.what) {
        case action::stage_reduce_scatter: reduce(a, own, c.dst + offset(c, own)); break;
        case action::stage_allgather:
            for (int i = g.position; i < g.position + n; ++i) copy_from(c, wrap(i, n), given_by(wrap(i, n)));
            break;
        case action::stage_reduce:
            if (g.position == g.root) reduce(a, g.whole(), c.dst + offset(c, g.whole()));
            break;
        case action::stage_broadcast: copy_from(c, g.root, given_by(g.root)); break;
        default:
            switch (sharing_of(a)) {
                case sharing::none: reduce(a, g.whole(), c.dst + offset(c, g.whole())); break;
                case sharing::push: reduce_for_all(a, own); break;
                case sharing::pull: reduce(a, own, result_of(a, g.position) + offset(c, own)); return reduced;
            }
    }
    return finished;
}

// Where a rank works in place, nobody may write what others still read: each then reduces its shard for all. All
// members come to the same answer.
node_stages::sharing node_stages::sharing_of(const active& a) const noexcept {
    bool shards = a.call->sharded, reaches_all = true;
    for (int i = 0; i < static_cast<int>(a.call->group->members.size()); ++i) {
        shards |= src_of(a, i) == dst_of(a, i);
        reaches_all &= dst_of(a, i) != nowhere;
    }
    return !shards ? sharing::none : reaches_all ? sharing::push : sharing::pull;
}

// Where a member's part of the result is to be found.
std::byte* node_stages::result_of(const active& a, int member) const noexcept {
    const place dst = dst_of(a, member);
    return at(*a.call, member, dst != nowhere ? dst : src_of(a, member));
}

void node_stages::reduce(const active& a, range part, std::byte* to) noexcept {
    if (part.empty()) return;
    const stage_call& c = *a.call;
    const int n = static_cast<int>(c.group->members.size());
    for (int i = 0; i < n; ++i)
        inputs_[static_cast<std::size_t>(i)] =
            (i == c.group->position ? c.own : at(c, i, src_of(a, i))) + offset(c, part);
    c.reduce(to, inputs_.data(), n, part.count(), c.divisor);
}

// Tile by tile, while it is in the innermost cache. In place everything has just been read: writing that past the
// caches would cost more than it saves.
void node_stages::reduce_for_all(const active& a, range shard) noexcept {
    const stage_call& c = *a.call;
    const bool streams = c.streams && a.src != a.dst;
    const auto most = static_cast<std::int64_t>(tile_bytes / c.element);
    alignas(line) std::byte tile[tile_bytes];
    for (range part{shard.begin, 0}; part.begin < shard.end; part.begin = part.end) {
        part.end = std::min(part.begin + most, shard.end);
        std::byte* reduced = streams ? tile : c.dst + offset(c, part);
        reduce(a, part, reduced);
        for (int i = 0; i < static_cast<int>(c.group->members.size()); ++i)
            if (streams || i != c.group->position)
                copy(at(c, i, dst_of(a, i)) + offset(c, part), reduced,
                     static_cast<std::size_t>(part.count()) * c.element, streams);
    }
}

// The member's shard, or all, of its vector at `src`.
void node_stages::copy_from(const stage_call& c, int member, const std::byte* src) noexcept {
    const range part =
        c.what == action::stage_broadcast ? c.group->whole() : c.group->shards[static_cast<std::size_t>(member)];
    if (src != c.dst)
        copy(c.dst + offset(c, part), src + offset(c, part), static_cast<std::size_t>(part.count()) * c.element,
             c.streams);
}

bool node_stages::sleep() noexcept {
    bell& mine = bell_of(me_);
    const std::uint32_t seen = mine.rings.load(std::memory_order_seq_cst);
    mine.asleep.store(1, std::memory_order_seq_cst);
    bool ready = std::any_of(active_.begin(), active_.end(), [&](active a) { return peers_reached(a); });
    for (int slot = 0; slot < slots_; ++slot)
        ready |= readers_[static_cast<std::size_t>(slot)].awaited && lane_ready(slot);
    if (!ready) wait_on(mine.rings, seen);
    mine.asleep.store(0, std::memory_order_relaxed);
    return !ready;
}

}  // namespace terrace
