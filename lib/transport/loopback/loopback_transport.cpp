#include "transport/loopback/loopback_transport.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/wire.hpp"

namespace terrace::detail {

struct loopback_world::state {
    // A message that its receiver has not matched yet. The receiver copies directly from the sender's memory, and then
    // sets `taken`.
    struct offer {
        int tag = 0;
        const void* from = nullptr;
        std::size_t bytes = 0;
        std::atomic<bool>* taken = nullptr;
    };

    // Messages that wait for a receiver, oldest first.
    template <class Queue>
    struct box {
        template <class Change>
        void change(const Change& how) {
            const std::lock_guard lock(guard);
            how(waiting);
            count.store(waiting.size(), std::memory_order_release);
        }

        std::mutex guard;
        Queue waiting;
        std::atomic<std::size_t> count{0};  // size of `waiting`, which the receiver reads without the lock
    };
    using channel = box<std::vector<offer>>;               // from one rank to another
    using control_box = box<std::deque<control_message>>;  // to one rank

    // The channels of one team, which all its ranks share.
    struct wiring {
        explicit wiring(int size) : ranks(size), channels(at(size) * at(size)), boxes(at(size)) {
            for (channel& c : channels) c.waiting.reserve(64);
        }
        channel& between(int from, int to) { return channels[at(from) * at(ranks) + at(to)]; }

        int ranks;
        std::vector<channel> channels;
        std::vector<control_box> boxes;  // by rank
    };

    // The values of one key, until all of its ranks have read them.
    struct values {
        std::map<int, std::string> by_rank;
        std::size_t read = 0;
    };

    std::vector<int> nodes;  // by rank
    bool device_memory = false;
    std::atomic<bool> failed{false};

    std::mutex guard;  // guards all members below
    std::condition_variable changed;
    std::string reason;
    std::map<std::string, values, std::less<>> keys;
    std::map<std::string, std::weak_ptr<wiring>> wirings;  // by team
};

namespace {

using part = std::shared_ptr<std::byte>;

// Maps memory, since pages that are never touched then cost nothing. Returns null if there is no memory.
part map_part(std::size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    return {static_cast<std::byte*>(pages), [bytes](std::byte* p) { munmap(p, bytes); }};
}

// Memory of this process, for ranks that are its threads. A part lives as long as any region that contains it.
class thread_regions final : public region_source {
public:
    using region_source::share;
    std::optional<shared_region> share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                       std::size_t /*at_once*/) override {
        const part own = map_part(bytes);
        const part* at_own = &own;
        std::vector<const part*> all(at(ranks.size()));
        ranks.gather_all(&at_own, all.data(), sizeof at_own);
        const bool everywhere = std::all_of(all.begin(), all.end(), [](const part* p) { return *p != nullptr; });
        auto keep = std::make_shared<std::vector<part>>();
        shared_region region{.bytes = bytes, .parts = {}, .keep = keep};
        for (const int r : sharers) {
            keep->push_back(*all[at(r)]);
            region.parts.push_back(keep->back().get());
        }
        ranks.gather_all(&at_own, all.data(), sizeof at_own);  // no rank reads `own` after this
        if (!everywhere) return std::nullopt;
        return region;
    }
};

using state = loopback_world::state;

class loopback_bootstrap final : public bootstrap {
public:
    loopback_bootstrap(std::shared_ptr<state> world, int rank)
        : bootstrap(fmt::format("node {}", world->nodes[at(rank)])), world_(std::move(world)), rank_(rank) {}

    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                      const wait_hook& look) override {
        std::unique_lock lock(world_->guard);
        const auto at_key = world_->keys.try_emplace(std::string(key)).first;
        state::values& all = at_key->second;
        all.by_rank.emplace(rank_, value);
        if (all.by_rank.size() == ranks.size()) world_->changed.notify_all();
        const auto is_over = [&] { return all.by_rank.size() == ranks.size() || world_->failed; };
        constexpr std::chrono::milliseconds between_looks(5);
        while (!world_->changed.wait_for(lock, between_looks, is_over)) call_unlocked(lock, look);
        if (all.by_rank.size() < ranks.size()) throw transport_error("loopback", "exchange", 1, world_->reason);
        std::vector<std::string> values;
        for (const int r : ranks) values.push_back(all.by_rank.at(r));
        if (++all.read == ranks.size()) world_->keys.erase(at_key);
        return values;
    }

private:
    const std::shared_ptr<state> world_;
    const int rank_;
};

class loopback_messages final : public messages {
public:
    loopback_messages(const network_traits& traits, std::shared_ptr<state> world, std::shared_ptr<state::wiring> wires,
                      int rank, int slots)
        : messages(traits), world_(std::move(world)), wires_(std::move(wires)), rank_(rank), taken_(at(slots)) {
        sending_.reserve(at(slots));
        expected_.reserve(at(slots));
        done_.reserve(at(slots));
    }
    ~loopback_messages() override { withdraw(); }

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override {
        std::atomic<bool>& taken = taken_[at(slot)];
        taken.store(false, std::memory_order_relaxed);
        sending_.push_back(slot);
        or_fail([&] {
            wires_->between(rank_, peer).change([&](auto& waiting) { waiting.push_back({tag, from, bytes, &taken}); });
        });
    }

    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override {
        expected_.push_back({slot, peer, tag, to, bytes});
    }

    std::span<const int> poll() noexcept override {
        done_.clear();
        std::erase_if(sending_, [&](int slot) {
            if (!taken_[at(slot)].load(std::memory_order_acquire)) return false;
            done_.push_back(slot);
            return true;
        });
        for (int peer = 0; peer < wires_->ranks && !expected_.empty(); ++peer) take_from(peer);
        if (too_long_) or_fail([&] { latch(2, "a message is longer than expected"); });
        look_for_failure();
        return done_;
    }

    void send_control(int peer, const control_message& m) noexcept override {
        or_fail([&] { wires_->boxes[at(peer)].change([&](auto& waiting) { waiting.push_back({rank_, m.words}); }); });
    }

    std::optional<control_message> take_control() noexcept override {
        look_for_failure();
        state::control_box& box = wires_->boxes[at(rank_)];
        if (box.count.load(std::memory_order_acquire) == 0) return {};
        control_message first;
        box.change([&](auto& waiting) {
            first = waiting.front();
            waiting.pop_front();
        });
        return first;
    }

    bool abandon() noexcept override {
        withdraw();
        return true;
    }

private:
    struct receive {
        int slot, peer, tag;
        void* to;
        std::size_t bytes;
    };

    // Matches messages that a peer offers with posted receives, both oldest first. Copies under the channel's lock, so
    // a sender that gives up can withdraw its offers.
    void take_from(int peer) noexcept {
        state::channel& c = wires_->between(peer, rank_);
        if (c.count.load(std::memory_order_acquire) == 0) return;
        const auto is_taken = [&](const state::offer& o) {
            const auto match = std::find_if(expected_.begin(), expected_.end(),
                                            [&](const receive& r) { return r.peer == peer && r.tag == o.tag; });
            if (match == expected_.end()) return false;
            if (o.bytes > match->bytes) {
                too_long_ = true;
                return false;
            }
            if (o.bytes > 0) std::memcpy(match->to, o.from, o.bytes);
            o.taken->store(true, std::memory_order_release);
            done_.push_back(match->slot);
            expected_.erase(match);
            return true;
        };
        c.change([&](auto& waiting) { std::erase_if(waiting, is_taken); });
    }

    void look_for_failure() noexcept {
        if (fault() || !world_->failed.load(std::memory_order_acquire)) return;
        const std::lock_guard lock(world_->guard);
        or_fail([&] { latch(1, world_->reason); });
    }

    void withdraw() noexcept {
        for (int peer = 0; peer < wires_->ranks; ++peer)
            wires_->between(rank_, peer).change([](auto& waiting) { waiting.clear(); });
        sending_.clear();
        expected_.clear();
    }

    void latch(int code, std::string why) {
        if (fault()) return;
        fail({"loopback", "poll", code, std::move(why)});
        withdraw();
    }

    const std::shared_ptr<state> world_;
    const std::shared_ptr<state::wiring> wires_;
    const int rank_;
    std::vector<std::atomic<bool>> taken_;  // by slot: the receiver has copied the message
    std::vector<int> sending_;
    std::vector<receive> expected_;
    std::vector<int> done_;
    bool too_long_ = false;
};

// Messages are cut as on a wire. Ranks are threads, and cores are few, so no rank spins.
network_traits traits_of(const state& world) {
    return {.name = "loopback",
            .segment = wire_segment,
            .spin_limit = 0,
            .device_memory = world.device_memory,
            .takes_shorter = true,
            .no_survivors = "ranks of loopback are threads of one process"};
}

class loopback_network final : public network {
public:
    explicit loopback_network(std::shared_ptr<state> world) : network(traits_of(*world)), world_(std::move(world)) {}

    std::unique_ptr<messages> connect(team& ranks, int slots) override {
        const std::lock_guard lock(world_->guard);
        std::erase_if(world_->wirings, [](const auto& w) { return w.second.expired(); });
        std::weak_ptr<state::wiring>& known = world_->wirings[ranks.name()];
        std::shared_ptr<state::wiring> wires = known.lock();
        if (!wires) known = wires = std::make_shared<state::wiring>(ranks.size());  // made by the first rank
        return std::make_unique<loopback_messages>(traits(), world_, std::move(wires), ranks.rank(), slots);
    }

private:
    const std::shared_ptr<state> world_;
};

}  // namespace

loopback_world::loopback_world(std::span<const int> node_sizes, bool device_memory)
    : state_(std::make_shared<state>()) {
    state_->device_memory = device_memory;
    for (const int size : node_sizes)
        state_->nodes.insert(state_->nodes.end(), at(size), static_cast<int>(state_->nodes.size()));
}

std::shared_ptr<bootstrap> loopback_world::boot(int rank) const {
    return std::make_shared<loopback_bootstrap>(state_, rank);
}

connection loopback_world::join(int rank) {
    return {.net = std::make_shared<loopback_network>(state_),
            .memory = std::make_shared<thread_regions>(),
            .ranks = team(boot(rank), rank, static_cast<int>(state_->nodes.size()))};
}

void loopback_world::fail(const std::string& why) {
    const std::lock_guard lock(state_->guard);
    if (state_->reason.empty()) state_->reason = why;
    state_->failed.store(true, std::memory_order_release);
    state_->changed.notify_all();
}

}  // namespace terrace::detail
