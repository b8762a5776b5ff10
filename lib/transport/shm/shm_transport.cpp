#include "transport/shm/shm_transport.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "transport/shm/cores.hpp"
#include "transport/shm/node_stages.hpp"

namespace terrace {

namespace {

constexpr std::uint32_t all_stages = [] {
    std::uint32_t bits = 0;
    for (const action a : {action::stage_reduce_scatter, action::stage_allgather, action::stage_allreduce,
                           action::stage_reduce, action::stage_broadcast})
        bits |= 1u << static_cast<unsigned>(a);
    return bits;
}();

class shm_transport final : public transport {
public:
    shm_transport(std::unique_ptr<transport> net, std::vector<int> nodes, std::vector<int> fellows,
                  std::vector<int> position, shared_region arena, int slots, std::size_t slot_bytes, bool crowded)
        : net_(std::move(net)),
          can_{.native = all_stages,
               .domain = std::move(nodes),
               .slot_bytes = slot_bytes,
               .slots = slots,
               .library = net_->can().library,
               .library_groups = net_->can().library_groups},
          fellows_(std::move(fellows)),
          stages_(net_->rank(), std::move(position), std::move(arena), slots, slot_bytes, crowded),
          name_(fmt::format("shm in nodes, {}", net_->name())),
          crowded_(crowded) {}

    int rank() const noexcept override { return net_->rank(); }
    int size() const noexcept override { return net_->size(); }
    std::string_view name() const noexcept override { return name_; }
    const capabilities& can() const noexcept override { return can_; }
    std::size_t segment() const noexcept override { return net_->segment(); }
    bool takes_device_memory() const noexcept override { return net_->takes_device_memory(); }

    void reserve(int slots) override {
        net_->reserve(slots);
        stages_.reserve(static_cast<std::size_t>(slots));
        done_.reserve(static_cast<std::size_t>(slots));
    }
    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override {
        net_->send(slot, peer, tag, from, bytes);
    }
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override {
        net_->recv(slot, peer, tag, to, bytes);
    }
    void stage(int slot, const stage_call& call) noexcept override {
        if (call.group->library) net_->stage(slot, call);
        else stages_.start(slot, call);
    }
    std::vector<int> missing(int slot) const override {
        std::vector<int> ranks = stages_.missing(slot);
        return ranks.empty() ? net_->missing(slot) : ranks;
    }
    std::byte* lane_memory(int lane_slot, std::size_t bytes) noexcept override {
        return stages_.lane_memory(lane_slot, bytes);
    }

    bool lane_ready(int lane_slot) noexcept override { return stages_.lane_ready(lane_slot); }
    std::vector<int> lane_readers(int lane_slot) const override { return stages_.lane_readers(lane_slot); }
    std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
        std::optional<shared_region> region = net_->share(fellows_, node_stages::window_bytes(bytes));
        return region ? stages_.add_window(std::move(*region)) : transport::allocate(bytes);
    }
    bool reachable(const void* memory, std::size_t bytes) const noexcept override {
        return stages_.reachable(static_cast<const std::byte*>(memory), bytes);
    }

    std::span<const int> poll() noexcept override {
        done_.clear();
        if (net_->in_flight() > 0) {
            const std::span<const int> messages = net_->poll();
            done_.insert(done_.end(), messages.begin(), messages.end());
        }
        stages_.poll(done_);
        if (!done_.empty()) idles_ = 0;
        return done_;
    }
    std::size_t in_flight() const noexcept override { return net_->in_flight(); }
    // A peer with a core of its own answers within a microsecond or so, which is what idle() takes.
    int patience() const noexcept override { return crowded_ || net_->in_flight() > 0 ? net_->patience() : 500; }
    void look() noexcept override { net_->look(); }
    void idle() noexcept override {
        // Messages and notes need somebody who looks after them.
        if (!crowded_ || net_->in_flight() > 0 || stages_.idle() || ++idles_ < 2 || stages_.sleep()) net_->idle();
    }
    bool abandon() noexcept override { return net_->abandon(); }

    const std::optional<transport_fault>& fault() const noexcept override { return net_->fault(); }
    void send_note(int peer, const note& n) noexcept override { net_->send_note(peer, n); }
    std::optional<note> take_note() noexcept override { return net_->take_note(); }
    void gather_all(const void* mine, void* all, std::size_t bytes) override { net_->gather_all(mine, all, bytes); }
    // Of messages alone: whoever wants shared memory there adds it.
    std::unique_ptr<transport> split(int color, int key) override { return net_->split(color, key); }
    std::vector<int> nodes() override { return net_->nodes(); }
    std::optional<shared_region> share(std::span<const int> ranks, std::size_t bytes) override {
        return net_->share(ranks, bytes);
    }

private:
    std::unique_ptr<transport> net_;
    capabilities can_;
    std::vector<int> fellows_;  // ranks of this node
    node_stages stages_;
    std::string name_;
    bool crowded_;
    int idles_ = 0;
    std::vector<int> done_;
};

}  // namespace

std::unique_ptr<transport> add_shared_memory(std::unique_ptr<transport> net, int slots, std::size_t slot_bytes) {
    std::vector<int> nodes = net->nodes(), fellows, position(nodes.size(), -1);
    std::vector<std::size_t> sizes(nodes.size());
    const int mine = nodes[static_cast<std::size_t>(net->rank())];
    for (std::size_t r = 0; r < nodes.size(); ++r) {
        ++sizes[static_cast<std::size_t>(nodes[r])];
        if (nodes[r] != mine) continue;
        position[r] = static_cast<int>(fellows.size());
        fellows.push_back(static_cast<int>(r));
    }
    if (std::all_of(sizes.begin(), sizes.end(), [](std::size_t n) { return n < 2; })) return net;
    std::optional<shared_region> arena = net->share(fellows, node_stages::arena_bytes(slots, slot_bytes));
    if (!arena) return net;
    const machine_use use = use_of_machine(net->size(), gathering_over(*net));
    return std::make_unique<shm_transport>(std::move(net), std::move(nodes), std::move(fellows), std::move(position),
                                           std::move(*arena), slots, slot_bytes, use.crowded());
}

}  // namespace terrace
