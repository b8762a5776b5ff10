#include "transport/loopback/loopback_transport.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "base/wire.hpp"

namespace terrace {

namespace {

// Where a message stands. The receiver copies straight from the sender's memory and then tells it so.
struct message {
    int tag = 0;
    const void* from = nullptr;
    std::size_t bytes = 0;
    std::atomic<bool>* taken = nullptr;
};

// Messages from one rank to another that the receiver has not matched yet, oldest first.
struct channel {
    std::mutex guard;
    std::vector<message> waiting;
    std::atomic<std::size_t> count{0};  // of `waiting`: lets the receiver look without taking the lock
};

// Notes to one rank.
struct mailbox {
    std::mutex guard;
    std::deque<note> notes;
    std::atomic<std::size_t> count{0};  // of `notes`, as above
};

}  // namespace

struct loopback_world::state {
    state(std::vector<int> nodes_of_ranks, bool takes_devices)
        : ranks(static_cast<int>(nodes_of_ranks.size())),
          nodes(std::move(nodes_of_ranks)),
          device_memory(takes_devices) {
        channels = std::vector<channel>(nodes.size() * nodes.size());
        for (channel& c : channels) c.waiting.reserve(64);
        mailboxes = std::vector<mailbox>(nodes.size());
    }

    channel& between(int from, int to) {
        return channels[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
                        static_cast<std::size_t>(to)];
    }

    int ranks;
    std::vector<int> nodes;  // by rank: the first rank of its node
    bool device_memory;
    std::vector<channel> channels;
    std::vector<mailbox> mailboxes;  // by rank
    std::atomic<bool> failed{false};

    // Set-up: a gather of equal blocks.
    std::mutex guard;
    std::condition_variable changed;
    std::vector<std::byte> gathered;
    int arrived = 0;
    std::uint64_t generation = 0;
    std::string reason;

    // Parts of this world: by color while they are made, and all that are in use, which fail with it.
    std::map<int, std::shared_ptr<state>> being_made;
    std::vector<std::weak_ptr<state>> parts;

    // The part of these ranks, in this order, which have the color; whoever asks first makes it.
    std::shared_ptr<state> part_of(int color, const std::vector<int>& members) {
        const std::lock_guard lock(guard);
        std::shared_ptr<state>& made = being_made[color];
        if (made) return made;
        std::map<int, int> first;  // of each node
        std::vector<int> nodes_of_members;
        for (const int r : members)
            nodes_of_members.push_back(
                first.emplace(nodes[static_cast<std::size_t>(r)], nodes_of_members.size()).first->second);
        made = std::make_shared<state>(std::move(nodes_of_members), device_memory);
        std::erase_if(parts, [](const auto& p) { return p.expired(); });
        parts.push_back(made);
        return made;
    }
    void forget(int color) {
        const std::lock_guard lock(guard);
        being_made.erase(color);
    }

    void fail(const std::string& why) {
        const std::lock_guard lock(guard);
        if (reason.empty()) reason = why;
        failed.store(true, std::memory_order_release);
        changed.notify_all();
        for (const std::weak_ptr<state>& part : parts)
            if (const std::shared_ptr<state> p = part.lock()) p->fail(why);
    }
};

namespace {

class loopback_transport final : public transport {
public:
    loopback_transport(std::shared_ptr<loopback_world::state> world, int rank)
        : own_(std::move(world)), world_(*own_), rank_(rank) {}
    ~loopback_transport() override { withdraw(); }

    int rank() const noexcept override { return rank_; }
    int size() const noexcept override { return world_.ranks; }
    std::string_view name() const noexcept override { return "loopback"; }
    // As on the wire, so that messages are cut as they are there.
    std::size_t segment() const noexcept override { return wire_segment; }
    bool takes_device_memory() const noexcept override { return world_.device_memory; }

    void reserve(int slots) override {
        const auto n = static_cast<std::size_t>(slots);
        if (n <= taken_.size()) return;
        taken_ = std::vector<std::atomic<bool>>(n);
        sending_.reserve(n);
        expected_.reserve(n);
        done_.reserve(n);
    }

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override {
        std::atomic<bool>& taken = taken_[static_cast<std::size_t>(slot)];
        taken.store(false, std::memory_order_relaxed);
        sending_.push_back(slot);
        channel& c = world_.between(rank_, peer);
        const std::lock_guard lock(c.guard);
        c.waiting.push_back({tag, from, bytes, &taken});
        c.count.store(c.waiting.size(), std::memory_order_release);
    }

    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override {
        expected_.push_back({slot, peer, tag, to, bytes});
    }

    std::span<const int> poll() noexcept override {
        done_.clear();
        std::erase_if(sending_, [&](int slot) {
            if (!taken_[static_cast<std::size_t>(slot)].load(std::memory_order_acquire)) return false;
            done_.push_back(slot);
            return true;
        });
        for (int peer = 0; peer < world_.ranks && !expected_.empty(); ++peer) take_from(peer);
        if (wrong_length_) latch(2, "a message is longer or shorter than expected");
        look_for_failure();
        return done_;
    }

    std::size_t in_flight() const noexcept override { return sending_.size() + expected_.size(); }

    bool abandon() noexcept override {
        withdraw();
        return true;
    }

    void send_note(int peer, const note& n) noexcept override {
        mailbox& box = world_.mailboxes[static_cast<std::size_t>(peer)];
        const std::lock_guard lock(box.guard);
        box.notes.push_back({rank_, n.words});
        box.count.store(box.notes.size(), std::memory_order_release);
    }

    std::optional<note> take_note() noexcept override {
        look_for_failure();
        mailbox& box = world_.mailboxes[static_cast<std::size_t>(rank_)];
        if (box.count.load(std::memory_order_acquire) == 0) return {};
        const std::lock_guard lock(box.guard);
        const note first = box.notes.front();
        box.notes.pop_front();
        box.count.store(box.notes.size(), std::memory_order_release);
        return first;
    }

    // Ranks are threads, and cores are few: what another one needs is the core.
    int patience() const noexcept override { return 0; }

    const std::optional<transport_fault>& fault() const noexcept override { return fault_; }

    void gather_all(const void* mine, void* all, std::size_t bytes) override {
        std::unique_lock lock(world_.guard);
        world_.gathered.resize(bytes * static_cast<std::size_t>(world_.ranks));
        std::memcpy(world_.gathered.data() + bytes * static_cast<std::size_t>(rank_), mine, bytes);
        meet(lock);
        std::memcpy(all, world_.gathered.data(), world_.gathered.size());
        meet(lock);
    }

    std::unique_ptr<transport> split(int color, int key) override {
        struct choice {
            int color, key;
        };
        const choice mine{color, key};
        std::vector<choice> all(static_cast<std::size_t>(world_.ranks));
        gather_all(&mine, all.data(), sizeof mine);
        std::vector<int> members;
        for (int r = 0; r < world_.ranks; ++r)
            if (all[static_cast<std::size_t>(r)].color == color) members.push_back(r);
        std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
            return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
        });
        std::shared_ptr<loopback_world::state> part;
        if (color >= 0) part = world_.part_of(color, members);
        gather_all(&mine, all.data(), sizeof mine);  // until all have theirs
        world_.forget(color);
        if (!part) return nullptr;
        const auto self = std::find(members.begin(), members.end(), rank_) - members.begin();
        return std::make_unique<loopback_transport>(std::move(part), static_cast<int>(self));
    }

    std::vector<int> nodes() override { return world_.nodes; }

    // Threads share all their memory; a part lives as long as any rank that knows of it. Mapped, since pages that
    // nobody touches then cost nothing.
    std::optional<shared_region> share(std::span<const int> ranks, std::size_t bytes) override {
        struct part {
            std::shared_ptr<void> memory;
        };
        part mine;
        if (void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            pages != MAP_FAILED)
            mine.memory = {pages, [bytes](void* p) { munmap(p, bytes); }};
        const part* at = &mine;
        std::vector<const part*> all(static_cast<std::size_t>(world_.ranks));
        gather_all(&at, all.data(), sizeof at);
        auto keep = std::make_shared<std::vector<part>>();
        shared_region region{.bytes = bytes, .parts = {}, .keep = {}};
        bool there = true;
        for (const part* p : all) there = there && p->memory != nullptr;
        for (int r : ranks) {
            keep->push_back(*all[static_cast<std::size_t>(r)]);
            region.parts.push_back(static_cast<std::byte*>(keep->back().memory.get()));
        }
        region.keep = std::move(keep);
        gather_all(&at, all.data(), sizeof at);  // `mine` must last until all have looked at it
        if (!there) return std::nullopt;
        return region;
    }

private:
    struct receive {
        int slot, peer, tag;
        void* to;
        std::size_t bytes;
    };

    // Matches what a peer offers, oldest first, with what is expected of it, oldest first. Copies under the channel's
    // lock: a sender that gives up can then withdraw what it offered.
    void take_from(int peer) noexcept {
        channel& c = world_.between(peer, rank_);
        if (c.count.load(std::memory_order_acquire) == 0) return;
        const std::lock_guard lock(c.guard);
        std::erase_if(c.waiting, [&](const message& m) {
            const auto match = std::find_if(expected_.begin(), expected_.end(),
                                            [&](const receive& r) { return r.peer == peer && r.tag == m.tag; });
            if (match == expected_.end()) return false;
            if (match->bytes != m.bytes) {
                wrong_length_ = true;
                return false;
            }
            std::memcpy(match->to, m.from, m.bytes);
            m.taken->store(true, std::memory_order_release);
            done_.push_back(match->slot);
            expected_.erase(match);
            return true;
        });
        c.count.store(c.waiting.size(), std::memory_order_release);
    }

    void look_for_failure() noexcept {
        if (fault_ || !world_.failed.load(std::memory_order_acquire)) return;
        const std::lock_guard lock(world_.guard);
        latch(1, world_.reason);
    }

    void withdraw() noexcept {
        for (int peer = 0; peer < world_.ranks; ++peer) {
            channel& c = world_.between(rank_, peer);
            const std::lock_guard lock(c.guard);
            c.waiting.clear();
            c.count.store(0, std::memory_order_release);
        }
        sending_.clear();
        expected_.clear();
    }

    void latch(int code, std::string why) noexcept {
        if (fault_) return;
        fault_ = transport_fault{"loopback", "poll", code, std::move(why)};
        withdraw();
    }

    // Waits until all ranks are here.
    void meet(std::unique_lock<std::mutex>& lock) {
        const std::uint64_t generation = world_.generation;
        if (++world_.arrived == world_.ranks) {
            world_.arrived = 0;
            ++world_.generation;
            world_.changed.notify_all();
            return;
        }
        world_.changed.wait(lock, [&] { return world_.generation != generation || world_.failed; });
        if (world_.generation == generation) throw transport_error("loopback", "gather_all", 1, world_.reason);
    }

    std::shared_ptr<loopback_world::state> own_;
    loopback_world::state& world_;
    int rank_;
    std::vector<std::atomic<bool>> taken_;  // by slot: the receiver has copied what it sends
    std::vector<int> sending_;
    std::vector<receive> expected_;
    std::vector<int> done_;
    bool wrong_length_ = false;
    std::optional<transport_fault> fault_;
};

}  // namespace

namespace {

std::vector<int> nodes_of(std::span<const int> sizes) {
    std::vector<int> nodes;
    for (const int size : sizes)
        nodes.insert(nodes.end(), static_cast<std::size_t>(size), static_cast<int>(nodes.size()));
    return nodes;
}

}  // namespace

loopback_world::loopback_world(std::span<const int> node_sizes, bool device_memory)
    : state_(std::make_shared<state>(nodes_of(node_sizes), device_memory)) {}
loopback_world::~loopback_world() = default;

std::unique_ptr<transport> loopback_world::join(int rank) { return std::make_unique<loopback_transport>(state_, rank); }

void loopback_world::fail(const std::string& why) { state_->fail(why); }

}  // namespace terrace
