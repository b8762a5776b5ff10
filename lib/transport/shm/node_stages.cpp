#include "transport/shm/node_stages.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

#ifdef __SSE2__
#    include <emmintrin.h>
#endif

#include "base/partition.hpp"

namespace terrace::detail {

namespace {

// Copies like memcpy. With `streams`, writes past the caches, for data that is not read soon. Peers must not be
// notified of streamed data before end_streams().
void copy(void* to, const void* from, std::size_t bytes, bool streams) noexcept {
#ifdef __SSE2__
    constexpr std::size_t line = 64;
    auto* dst = static_cast<std::byte*>(to);
    const auto* src = static_cast<const std::byte*>(from);
    const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
    if (streams && bytes > head + line) {
        std::memcpy(dst, src, head);
        std::size_t at = head;
        for (; at + line <= bytes; at += line)
            for (std::size_t i = at; i < at + line; i += sizeof(__m128i))
                _mm_stream_si128(reinterpret_cast<__m128i*>(dst + i),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i)));
        std::memcpy(dst + at, src + at, bytes - at);
        return;
    }
#endif
    std::memcpy(to, from, bytes);
}

// Orders all streamed writes before all later writes.
void end_streams() noexcept {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

constexpr std::size_t tile_bytes = 8192;  // part of a sum, copied to peers while it is in the first-level cache

// Calls f(some, own, to) for each contiguous stretch of the part, with the addresses of the rank's own data and of its
// result.
template <class F>
void for_each_stretch(const stage_call& c, range part, F f) noexcept {
    if (c.pieces.empty()) return f(part, c.own + c.offset(part), c.dst + c.offset(part));
    for_each_piece(c.pieces, part, [&](range some, const call_piece& p, std::int64_t first) {
        const std::size_t at = static_cast<std::size_t>(first) * c.element;
        f(some, p.given + at, p.result + at);
    });
}

// Sleeps while the word has the value `seen`, for at most half a millisecond: messages in flight need progress, and a
// peer may have died.
void wait_on(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
    const timespec time{0, 500'000};
    syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

}  // namespace

node_stages::node_stages(int rank, std::vector<int> part_of, shared_region arena, int slots, std::size_t slot_bytes,
                         bool sleeps)
    : part_of_(std::move(part_of)),
      part_(part_of_[at(rank)]),
      memory_(part_, std::move(arena), slots, slot_bytes),
      sleeps_(sleeps),
      readers_(at(slots)),
      completed_(at(memory_.parts())),
      inputs_(at(memory_.parts())) {
    running_.reserve(readers_.size());
    for (slot_readers& r : readers_) r.ranks.reserve(completed_.size());
}

// ---- progress of ranks ----

void node_stages::announce(const stage_call& c, progress p) noexcept {
    if (c.streams) end_streams();
    std::atomic<std::uint64_t>& mine = memory_.mailbox_of(part_, c.lane_slot).sequence;
    if (!sleeps_) return mine.store(sequence_of(c, p), std::memory_order_release);
    mine.store(sequence_of(c, p), std::memory_order_seq_cst);
    for (const int rank : c.group->members()) {
        node_memory::doorbell& peer = memory_.doorbell_of(part_of(rank));
        if (part_of(rank) == part_ || peer.asleep.load(std::memory_order_seq_cst) == 0) continue;
        if (peer.asleep.exchange(0, std::memory_order_seq_cst) == 0) continue;  // another rank has woken the peer
        peer.rings.fetch_add(1, std::memory_order_seq_cst);
        syscall(SYS_futex, &peer.rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
}

bool node_stages::reached(const running_stage& s, std::size_t peer) const noexcept {
    return mailbox_of(*s.call, static_cast<int>(peer)).sequence.load(std::memory_order_acquire) >=
           sequence_of(*s.call, needed_for(s));
}

bool node_stages::peers_reached(running_stage& s) const noexcept {
    if (s.differs) return false;
    const group& g = *s.call->group;
    for (; s.seen < g.members().size(); ++s.seen)
        if (s.work.awaits(s.round, g.position(), static_cast<int>(s.seen)) && !reached(s, s.seen)) return false;
    s.seen = 0;
    return true;
}

// Calls f(position) for the peers that must have progressed before the next round, or before the end.
template <class F>
void node_stages::for_each_awaited(const running_stage& s, F&& f) const {
    const group& g = *s.call->group;
    for (std::size_t peer = 0; peer < g.members().size(); ++peer)
        if (s.work.awaits(s.round, g.position(), static_cast<int>(peer))) f(peer);
}

// Every mailbox of a peer has the peer's completed calls: the mailboxes of other slots need not be read for them.
void node_stages::read_calls_of_peers(running_stage& s) noexcept {
    for_each_awaited(s, [&](std::size_t peer) {
        const int member = static_cast<int>(peer);
        std::uint64_t& known = completed_[at(part_of(*s.call, member))];
        const auto calls = node_memory::call_words::in(mailbox_of(*s.call, member).calls);
        known = std::max(known, calls.completed);
        s.differs = s.differs || calls.history != s.call->history;
    });
}

std::vector<int> node_stages::missing(int slot) const {
    std::vector<int> ranks;
    for (const running_stage& s : running_)
        if (s.slot == slot)
            for_each_awaited(s, [&](std::size_t peer) {
                if (s.differs || !reached(s, peer)) ranks.push_back(s.call->group->members()[peer]);
            });
    return ranks;
}

int node_stages::first_missing(int slot) const noexcept {
    int first = -1;
    for (const running_stage& s : running_)
        if (s.slot == slot)
            for_each_awaited(s, [&](std::size_t peer) {
                if (first < 0 && !reached(s, peer)) first = s.call->group->members()[peer];
            });
    return first;
}

// ---- stages ----

void node_stages::start(int slot, const stage_call& call) noexcept {
    const location given = memory_.locate(call.src), result = call.dst == call.src ? given : memory_.locate(call.dst);
    mailbox& mine = memory_.mailbox_of(part_, call.lane_slot);
    mine.given = given;
    mine.result = result;
    mine.calls = node_memory::call_words{call.through, call.history}.packed();
    announce(call, arrived);
    running_.push_back({slot, &call, given, result, stage_work(call.what, call.group->root())});
}

void node_stages::poll(std::vector<int>& done) noexcept {
    std::erase_if(running_, [&](running_stage& s) {
        if (!advance(s)) return false;
        done.push_back(s.slot);
        return true;
    });
}

// Runs all rounds that peers allow. Returns true once the stage is complete.
bool node_stages::advance(running_stage& s) noexcept {
    while (peers_reached(s)) {
        if (s.round == s.work.rounds()) return true;
        if (s.round == 0) {
            read_calls_of_peers(s);
            if (s.differs) return false;
            if (s.call->what == action::stage_allreduce)
                s.work = stage_work(action::stage_allreduce, s.call->group->root(), how_shared(s));
        }
        run_round(s);
        ++s.round;
        const progress now = needed_for(s);
        announce(*s.call, now);
        if (now == finished && leaves_early(s)) return true;
    }
    return false;
}

// Returns true if the stage is complete here although peers still read memory of this rank. The memory is in the lane's
// slot, which is not written again before peers have read it (lane_ready).
bool node_stages::leaves_early(const running_stage& s) noexcept {
    if (!s.call->last || !node_memory::in_arena(s.given) ||
        (s.result != node_memory::nowhere && !node_memory::in_arena(s.result)))
        return false;
    slot_readers& r = readers_[at(s.call->lane_slot)];
    r.sequence = sequence_of(*s.call, finished);
    r.call = s.call->number;
    r.ranks.clear();
    for_each_awaited(s, [&](std::size_t peer) { r.ranks.push_back(s.call->group->members()[peer]); });
    return true;
}

bool node_stages::lane_ready(int lane_slot) noexcept {
    slot_readers& r = readers_[at(lane_slot)];
    std::erase_if(r.ranks, [&](int rank) { return has_read(r, lane_slot, rank); });
    r.awaited = !r.ranks.empty();
    return r.ranks.empty();
}

std::vector<int> node_stages::lane_readers(int lane_slot) const {
    const slot_readers& r = readers_[at(lane_slot)];
    std::vector<int> ranks = r.ranks;
    std::erase_if(ranks, [&](int rank) { return has_read(r, lane_slot, rank); });
    return ranks;
}

// ---- work ----

sharing node_stages::how_shared(const running_stage& s) const noexcept {
    bool any_in_place = false, all_reachable = true;
    for (int i = 0; i < s.call->group->size(); ++i) {
        any_in_place |= given_by(s, i) == result_of(s, i);
        all_reachable &= result_of(s, i) != node_memory::nowhere;
    }
    return sharing_of(s.call->sharded, any_in_place, all_reachable);
}

void node_stages::run_round(const running_stage& s) noexcept {
    const stage_call& c = *s.call;
    const group& g = *c.group;
    const stage_round& now = s.work.round(s.round);
    if (!s.work.works(s.round, g.position())) return;
    if (now.adds) {
        const range part = s.work.written(s.round, g.position(), g.position(), g.shards());
        if (now.to_all) return reduce_for_all(s, part);
        const bool exposes = now.to != stage_memory::result;
        std::byte* exposed = exposes ? address(c, g.position(), exposed_by(s, g.position())) : nullptr;
        return for_each_stretch(c, part, [&](range some, const std::byte* own, std::byte* to) {
            reduce(s, some, own, exposes ? exposed + c.offset(some) : to);
        });
    }
    // Each rank begins with its own part, so not all ranks read the same member at once.
    const int size = g.size();
    for (int k = 0; k < size; ++k) {
        const int owner = wrap(g.position() + k, size);
        const range part = s.work.read(s.round, g.position(), owner, g.shards());
        if (part.empty()) continue;
        const location at = now.from == stage_memory::given ? given_by(s, owner) : exposed_by(s, owner);
        if (const std::byte* from = address(c, owner, at); from != c.dst)
            for_each_stretch(c, part, [&](range some, const std::byte*, std::byte* to) {
                copy(to, from + c.offset(some), c.bytes(some), c.streams);
            });
    }
}

void node_stages::reduce(const running_stage& s, range part, const std::byte* own, std::byte* to) noexcept {
    if (part.empty()) return;
    const stage_call& c = *s.call;
    const int n = c.group->size();
    for (int i = 0; i < n; ++i)
        inputs_[at(i)] = i == c.group->position() ? own : address(c, i, given_by(s, i)) + c.offset(part);
    c.reduce(to, inputs_.data(), n, part.count(), c.divisor);
}

// Reduces tile by tile, and copies each tile while it is in the innermost cache. In place, all destinations have just
// been read, so writes past the caches would cost more than they save.
void node_stages::reduce_for_all(const running_stage& s, range shard) noexcept {
    const stage_call& c = *s.call;
    const bool streams = c.streams && s.given != s.result;
    const auto most = static_cast<std::int64_t>(tile_bytes / c.element);
    alignas(cache_line) std::byte tile[tile_bytes];
    for (range part{shard.begin, 0}; part.begin < shard.end; part.begin = part.end) {
        part.end = std::min(part.begin + most, shard.end);
        std::byte* sum = streams ? tile : c.dst + c.offset(part);
        reduce(s, part, c.own + c.offset(part), sum);
        for (int i = 0; i < c.group->size(); ++i)
            if (streams || i != c.group->position())
                copy(address(c, i, result_of(s, i)) + c.offset(part), sum, c.bytes(part), streams);
    }
}

// ---- sleep ----

bool node_stages::sleep() noexcept {
    node_memory::doorbell& mine = memory_.doorbell_of(part_);
    const std::uint32_t seen = mine.rings.load(std::memory_order_seq_cst);
    mine.asleep.store(1, std::memory_order_seq_cst);
    bool ready = std::any_of(running_.begin(), running_.end(), [&](running_stage s) { return peers_reached(s); });
    for (int slot = 0; slot < static_cast<int>(readers_.size()); ++slot)
        ready |= readers_[at(slot)].awaited && lane_ready(slot);
    if (!ready) wait_on(mine.rings, seen);
    mine.asleep.store(0, std::memory_order_relaxed);
    return !ready;
}

}  // namespace terrace::detail
