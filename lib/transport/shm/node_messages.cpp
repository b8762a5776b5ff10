#include "transport/shm/node_messages.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace terrace::detail {

namespace {

constexpr std::size_t ring_budget = 384 * 1024, smallest_ring = 4096, largest_ring = 64 * 1024;  // [bytes]

// Longest wait of the destructor for room for the last records.
constexpr auto patience = std::chrono::seconds(1);

network_traits traits_of(const messages& network, const node_messages::node& on) {
    network_traits t = network.traits();
    t.takes_shorter = t.takes_shorter && on.all_read;
    return t;
}

}  // namespace

// ---- memory ---------------------------------------------------------------------------------------------------------

std::size_t node_messages::ring_capacity(int ranks) noexcept {
    return std::clamp(std::bit_floor(ring_budget / at(ranks)), smallest_ring, largest_ring);
}

// At most a quarter of a ring, so several messages fit. Longer messages are faster if they are not copied twice.
std::size_t node_messages::short_bytes(std::size_t capacity) noexcept {
    return std::min(capacity / 4, std::size_t{8192}) - sizeof(record_ring::header);
}

node_messages::node_messages(std::unique_ptr<messages> network, int rank, node on, int slots)
    : messages(traits_of(*network, on)), network_(std::move(network)), rank_(rank), slots_(slots), on_(std::move(on)) {
    const int own = on_.peers.position[at(rank)];
    for (int p = 0; p < static_cast<int>(on_.peers.ranks.size()); ++p)
        if (p != own) links_.push_back({on_.peers.ranks[at(p)], p, ring(p, own), ring(own, p), {}, {}, {}});
    done_.reserve(at(slots));
    reported_.reserve(at(slots));
    offered_.reserve(at(slots));
}

// ---- messages -------------------------------------------------------------------------------------------------------

// Returns the link of a message; null: the network carries the message. Both ends decide alike.
node_messages::link* node_messages::way_of(int peer, std::size_t bytes) noexcept {
    return bytes <= short_bytes(on_.capacity) || !on_.pids.empty() ? link_to(peer) : nullptr;
}

void node_messages::send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept {
    if (fault()) return;
    link* to = way_of(peer, bytes);
    if (to == nullptr) {
        ++over_network_;
        return network_->send(slot, peer, tag, from, bytes);
    }
    if (bytes <= short_bytes(on_.capacity))
        return put(*to, {message, tag, static_cast<std::uint32_t>(bytes), slot, bytes}, from);
    offered_.push_back(slot);
    put(*to, {offer, tag, sizeof from, slot, bytes}, &from);
}

void node_messages::recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept {
    if (fault()) return;
    link* from = way_of(peer, bytes);
    if (from == nullptr) {
        ++over_network_;
        return network_->recv(slot, peer, tag, to, bytes);
    }
    const receive by{slot, tag, to, bytes};
    const auto found = std::ranges::find_if(from->early, [&](const early_message& m) { return m.head.tag == tag; });
    if (found == from->early.end()) return or_fail([&] { from->expected.push_back(by); });
    const early_message first = std::move(*found);
    from->early.erase(found);
    take(*from, by, first.head, first.stored.data());
}

void node_messages::send_control(int peer, const control_message& m) noexcept {
    if (fault()) return;
    if (link* to = link_to(peer)) return put(*to, {control_record, 0, sizeof m.words, -1, 0}, m.words.data());
    network_->send_control(peer, m);
    adopt_fault();
}

void node_messages::put(link& to, const record_ring::header& h, const void* from) noexcept {
    waiting_record r{h, h.kind == message ? from : nullptr, {}};
    if (r.from == nullptr && h.stored > 0) std::memcpy(r.words.data(), from, h.stored);
    if (!to.waiting.empty() || !written(to, r)) or_fail([&] { to.waiting.push_back(r); });
}

void node_messages::arrived(link& from, const record_ring::header& h, const std::byte* stored) noexcept {
    if (fault()) return;
    if (h.kind == control_record)
        return or_fail([&] {
            std::memcpy(control_.emplace_back(control_message{from.rank, {}}).words.data(), stored, h.stored);
        });
    const auto found = std::ranges::find(from.expected, h.tag, &receive::tag);
    if (found == from.expected.end()) return or_fail([&] { from.early.push_back({h, {stored, stored + h.stored}}); });
    const receive by = *found;
    from.expected.erase(found);
    take(from, by, h, stored);
}

void node_messages::take(link& from, const receive& by, const record_ring::header& h,
                         const std::byte* stored) noexcept {
    if (h.bytes > by.bytes)
        return or_fail([&] {
            fail({"shm", "recv", EMSGSIZE,
                  fmt::format("rank {} of the plan: its message has {} bytes; there is room for {}", from.rank, h.bytes,
                              by.bytes)});
        });
    if (h.kind == offer) {
        std::byte* address = nullptr;  // in the sender's memory
        std::memcpy(&address, stored, sizeof address);
        if (!pull(from, by.to, address, h.bytes)) return;
        taken(from.position, h.slot).store(1, std::memory_order_release);
    } else if (h.bytes > 0) {
        std::memcpy(by.to, stored, h.bytes);
    }
    done_.push_back(by.slot);
}

// A sender that gives up sets `withdrawn` before it frees memory, so all data read until then is valid.
bool node_messages::pull(const link& from, void* to, std::byte* address, std::size_t bytes) noexcept {
    for (std::size_t had = 0; had < bytes;) {
        const iovec here{static_cast<std::byte*>(to) + had, bytes - had};
        const iovec there{address + had, bytes - had};
        const ssize_t more = process_vm_readv(on_.pids[at(from.position)], &here, 1, &there, 1, 0);
        if (more <= 0) {
            const int code = more < 0 ? errno : EFAULT;
            or_fail([&] {
                const transport_fault why{"shm", "process_vm_readv", code,
                                          fmt::format("rank {} of the plan: {}", from.rank, std::strerror(code))};
                if (code == ESRCH) lose(from.rank, why);  // its process has ended
                else fail(why);
            });
            return false;
        }
        had += static_cast<std::size_t>(more);
    }
    // A load might be reordered before the reads; a read-modify-write with release is not. TSan knows no fences.
    if (head_of(from.position).withdrawn.fetch_or(0, std::memory_order_acq_rel) == 0) return true;
    or_fail([&] {
        lose(from.rank, {"shm", "process_vm_readv", ECANCELED,
                         fmt::format("rank {} of the plan: it has given up its messages", from.rank)});
    });
    return false;
}

// ---- progress -------------------------------------------------------------------------------------------------------

bool node_messages::progress() noexcept {
    bool moved = false;
    for (link& l : links_) {
        moved |= l.in.read([&](const record_ring::header& h, const std::byte* stored) { arrived(l, h, stored); });
        for (; !l.waiting.empty() && written(l, l.waiting.front()); l.waiting.pop_front()) moved = true;
    }
    if (offered_.empty()) return moved;
    const int own = on_.peers.position[at(rank_)];
    std::erase_if(offered_, [&](int slot) {
        if (taken(own, slot).load(std::memory_order_acquire) == 0) return false;
        taken(own, slot).store(0, std::memory_order_relaxed);
        done_.push_back(slot);
        return true;
    });
    return moved || !done_.empty();
}

// Messages that have completed in the node are reported at once: to poll the network may cost a system call.
std::span<const int> node_messages::poll() noexcept {
    if (!progress() && done_.empty()) {
        if (over_network_ > 0) {
            const std::span<const int> done = network_->poll();
            over_network_ -= done.size();
            done_.insert(done_.end(), done.begin(), done.end());
            adopt_fault();
        } else {
            sched_yield();  // the awaited message may come from a rank on the same core
        }
    }
    reported_.swap(done_);
    done_.clear();
    return reported_;
}

std::optional<control_message> node_messages::take_control() noexcept {
    if (control_.empty()) progress();
    if (!control_.empty()) {
        const control_message first = control_.front();
        control_.pop_front();
        return first;
    }
    const std::optional<control_message> from_elsewhere = network_->take_control();
    adopt_fault();
    return from_elsewhere;
}

bool node_messages::nothing_waits() const noexcept {
    return std::all_of(links_.begin(), links_.end(), [](const link& l) { return l.waiting.empty(); });
}

void node_messages::adopt_fault() noexcept {
    or_fail([&] {
        for (const lost_peer& l : network_->lost()) lose(l.peer, l.why);
        if (const auto& f = network_->fault(); f && !fault()) fail(*f);
    });
}

// ---- closing --------------------------------------------------------------------------------------------------------

node_messages::~node_messages() {
    const auto begin = std::chrono::steady_clock::now();
    while (!fault() && !nothing_waits() && std::chrono::steady_clock::now() - begin < patience) {
        progress();
        sched_yield();
    }
    if (fault() || !offered_.empty()) abandon();
}

bool node_messages::abandon() noexcept {
    head_of(on_.peers.position[at(rank_)]).withdrawn.store(1, std::memory_order_seq_cst);
    offered_.clear();
    for (link& l : links_) {
        l.waiting.clear();
        l.expected.clear();
        l.early.clear();
    }
    return network_->abandon();
}

}  // namespace terrace::detail
