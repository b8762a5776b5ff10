#include "transport/nccl/bridged_messages.hpp"

#include <algorithm>
#include <utility>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "transport/nccl/nccl_comms.hpp"

namespace terrace::detail {

bridged_messages::bridged_messages(connection& host, device_queues& on, int queues,
                                   const std::vector<int>& callers_rank)
    : on_(on) {
    team& ranks = host.ranks;
    const int mine = host.net->traits().device_memory;
    std::vector<int> all(at(ranks.size()));
    ranks.gather_all(&mine, all.data(), sizeof mine);
    direct_ = std::find(all.begin(), all.end(), 0) == all.end();
    try {
        on_all_ranks(ranks, [&] { return make_counters(queues); });
        std::vector<mpi_bridge::counters*> each;
        for (int q = 0; q < queues; ++q) each.push_back(counters_ + q);
        bridge_ = std::make_unique<mpi_bridge>(connection{host.net, nullptr, *ranks.split(0, ranks.rank())},
                                               std::move(each), direct_, callers_rank, [&on] { on.use(); });
    } catch (...) {
        release_counters();
        throw;
    }
}

bridged_messages::~bridged_messages() {
    on_.use();
    if (bridge_->stop()) on_.keep_memory();
    bridge_.reset();
    release_counters();
}

void bridged_messages::release_counters() noexcept {
    if (counters_ != nullptr && !on_.keeps_memory()) on_.gpu().release_pinned(counters_);
}

// Also tries whether streams can use the counters.
std::optional<transport_fault> bridged_messages::make_counters(int queues) {
    const gpu_runtime& gpu = on_.gpu();
    void* memory = nullptr;
    if (const int code = gpu.allocate_pinned(&memory, at(queues) * sizeof(mpi_bridge::counters)); code != 0)
        return on_.cuda_fault("cudaMallocHost", code);
    counters_ = static_cast<mpi_bridge::counters*>(memory);
    std::uninitialized_default_construct_n(counters_, queues);
    if (const int code = gpu.write_value(on_.own(), &counters_->ready, 0); code != 0)
        return on_.cuda_fault("cuStreamWriteValue32", code);
    if (const int code = gpu.wait_value(on_.own(), &counters_->delivered, 0); code != 0)
        return on_.cuda_fault("cuStreamWaitValue32", code);
    return {};
}

void bridged_messages::open(int queue, const call_position& /*where*/, std::string_view stage,
                            std::byte* host) noexcept {
    queue_ = queue;
    host_ = host;
    arriving_.clear();
    if (!on_.fault()) bridge_->open(queue, stage);
}

// Takes a place in the host's memory, on a cache line.
std::byte* bridged_messages::host_place(std::size_t bytes) noexcept {
    constexpr std::size_t line = 64;
    return std::exchange(host_, host_ + round_up(bytes, line));
}

void bridged_messages::send(int peer, const void* from, std::size_t bytes) noexcept {
    if (on_.fault()) return;
    if (direct_) return bridge_->send(peer, static_cast<const std::byte*>(from), bytes);
    std::byte* host = host_place(bytes);
    on_.copy(queue_, host, from, bytes);
    if (!on_.fault()) bridge_->send(peer, host, bytes);
}

void bridged_messages::recv(int peer, void* to, std::size_t bytes) noexcept {
    if (on_.fault()) return;
    auto* at = static_cast<std::byte*>(to);
    if (direct_) return bridge_->recv(peer, at, bytes);
    arriving_.push_back({at, host_place(bytes), bytes});
    bridge_->recv(peer, arriving_.back().host, bytes);
}

// All that the stream will do is in it at once, so that nothing that comes later is needed for it to go on.
void bridged_messages::close() noexcept {
    if (on_.fault()) return;
    const std::uint32_t number = bridge_->close();
    mpi_bridge::counters& c = counters_[queue_];
    const gpu_stream stream = on_.at(queue_).stream;
    on_.check("cuStreamWriteValue32", on_.gpu().write_value(stream, &c.ready, number));
    if (!on_.fault()) on_.check("cuStreamWaitValue32", on_.gpu().wait_value(stream, &c.delivered, number));
    for (const arrival& a : arriving_) on_.copy(queue_, a.to, a.host, a.bytes);
}

}  // namespace terrace::detail
