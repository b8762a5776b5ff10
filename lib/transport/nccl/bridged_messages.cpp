#include "transport/nccl/bridged_messages.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "transport/nccl/nccl_comms.hpp"

namespace terrace::detail {

namespace {

constexpr int pieces_in_flight = 8;                         // for each queue and direction
constexpr std::size_t direct_piece = std::size_t{4} << 20;  // [bytes]; network adapters read long pieces from a device
constexpr std::chrono::seconds grace{1};                    // time for peers to receive messages in flight at give_up()

// Compares as the device does, so numbers may wrap around.
bool reached(std::uint32_t& counter, std::uint32_t number) noexcept {
    const std::uint32_t now = std::atomic_ref(counter).load(std::memory_order_acquire);
    return static_cast<std::int32_t>(now - number) >= 0;
}

}  // namespace

mpi_bridge::mpi_bridge(connection by, const std::vector<counters*>& counts, bool direct, std::vector<int> callers_rank,
                       std::function<void()> at_start)
    : by_(std::move(by.net)),
      net_(by_->connect(by.ranks, 2 * pieces_in_flight * static_cast<int>(counts.size()))),
      piece_(direct ? direct_piece : by_->traits().segment),
      callers_rank_(std::move(callers_rank)),
      numbers_(counts.size()) {
    int slot = 0;
    for (counters* c : counts) {
        queue_state& l = queues_.emplace_back(queue_state{c, {}, {}, {}});
        for (std::vector<int>* free : {&l.in, &l.out})
            for (int i = 0; i < pieces_in_flight; ++i) free->push_back(slot++);
    }
    message_of_.resize(at(slot));
    thread_ = std::jthread([this, begin = std::move(at_start)](const std::stop_token& stop) {
        begin();
        for (waiter w; take_over(stop);)
            if (w.should_yield(look(), by_->traits().spin_limit)) net_->idle();
    });
}

bool mpi_bridge::stop() noexcept {
    if (thread_.joinable()) {
        thread_.request_stop();
        thread_.join();
    }
    if (!over_ && (given_up_ || in_flight_ > 0 || net_->fault())) let_go();
    return still_used_;
}

// ---- adding batches -------------------------------------------------------------------------------------------------

void mpi_bridge::open(int queue, std::string_view stage) {
    {
        const std::lock_guard lock(guard_);
        if (!spare_.empty()) open_.splice(open_.end(), spare_, spare_.begin());
    }
    if (open_.empty()) open_.emplace_back();
    batch& p = open_.front();
    for (direction* d : {&p.in, &p.out}) {
        d->all.clear();
        d->next = 0;
        d->piece = 0;
    }
    p.stage = stage;
    p.queue = queue;
    p.begun = false;
}

std::uint32_t mpi_bridge::close() {
    batch& p = open_.front();
    const std::uint32_t number = p.number = ++numbers_[at(p.queue)];
    p.left = p.in.all.size() + p.out.all.size();
    {
        const std::lock_guard lock(guard_);
        fresh_.splice(fresh_.end(), open_);
    }
    there_.notify_one();
    return number;
}

// ---- sending batches ------------------------------------------------------------------------------------------------

// Waits for work, takes over new batches and returns delivered ones for reuse. Returns false at the end.
bool mpi_bridge::take_over(const std::stop_token& stop) {
    std::unique_lock lock(guard_);
    there_.wait(lock, stop, [this] { return !over_ && (under_way_ > 0 || !fresh_.empty() || given_up_); });
    if (stop.stop_requested()) return false;
    const std::lock_guard working(working_);
    for (; !fresh_.empty(); ++under_way_) {
        std::list<batch>& waiting = queues_[at(fresh_.front().queue)].batches;
        waiting.splice(waiting.end(), fresh_, fresh_.begin());
    }
    under_way_ -= delivered_.size();
    spare_.splice(spare_.end(), delivered_);
    return true;
}

bool mpi_bridge::look() {
    const std::lock_guard lock(working_);
    if (given_up_) return wind_up();
    if (fault_) return false;
    bool moved = false;
    for (queue_state& l : queues_) moved |= begin(l);
    moved |= move_along();
    for (queue_state& l : queues_) {
        if (l.batches.empty()) continue;
        const batch& p = l.batches.front();
        if (!p.begun || p.left > 0) continue;
        std::atomic_ref(l.at->delivered).store(p.number, std::memory_order_release);
        delivered_.splice(delivered_.end(), l.batches, l.batches.begin());
    }
    if (const std::optional<transport_fault>& f = net_->fault()) {
        fault_ = f;
        if (const std::string waits = what_waits(); !waits.empty()) fault_->message += "; " + waits;
    }
    return moved;
}

// Begins the first batch of a queue once its stream allows it, and starts as many of its pieces as there are slots.
bool mpi_bridge::begin(queue_state& l) {
    if (l.batches.empty()) return false;
    batch& p = l.batches.front();
    const bool begins = !p.begun && reached(l.at->ready, p.number);
    p.begun |= begins;
    if (p.begun) {
        start(p, p.in, l.in);
        start(p, p.out, l.out);
    }
    return begins;
}

void mpi_bridge::start(batch& p, direction& d, std::vector<int>& slots) {
    while (d.next < d.all.size() && !slots.empty()) {
        const message& m = d.all[d.next];
        const int n = pieces(m.bytes);
        const range part = partition({0, static_cast<std::int64_t>(m.bytes)}, n, d.piece);
        std::byte* from = m.at + part.begin;
        const auto bytes = static_cast<std::size_t>(part.count());
        const int slot = slots.back();
        slots.pop_back();
        message_of_[at(slot)] = d.next;
        ++in_flight_;
        if (&d == &p.in) net_->recv(slot, m.peer, p.queue, from, bytes);
        else net_->send(slot, m.peer, p.queue, from, bytes);
        if (++d.piece == n) ++d.next, d.piece = 0;
    }
}

// Progresses messages in flight. Returns true if any piece is complete.
bool mpi_bridge::move_along() {
    const std::span<const int> through = net_->poll();
    in_flight_ -= through.size();
    for (const int slot : through) {
        queue_state& l = queues_[at(slot / (2 * pieces_in_flight))];
        batch& p = l.batches.front();
        const bool in = slot / pieces_in_flight % 2 == 0;
        direction& d = in ? p.in : p.out;
        (in ? l.in : l.out).push_back(slot);
        if (--d.all[message_of_[at(slot)]].left == 0) --p.left;
    }
    return !through.empty();
}

int mpi_bridge::pieces(std::size_t bytes) const noexcept {
    return static_cast<int>(std::max<std::size_t>(div_ceil(bytes, piece_), 1));
}

// ---- the end --------------------------------------------------------------------------------------------------------

void mpi_bridge::give_up() noexcept {
    {
        const std::scoped_lock lock(guard_, working_);
        given_up_ = clock::now();
    }
    there_.notify_one();
}

// Streams that continue overwrite data that is being sent, so peers that wait receive this data first.
bool mpi_bridge::wind_up() {
    const bool moved = !net_->fault() && move_along();
    const bool sending = std::ranges::any_of(queues_, [](const auto& l) { return l.out.size() < pieces_in_flight; });
    if (!sending || net_->fault() || clock::now() - *given_up_ > grace) let_go();
    return moved;
}

void mpi_bridge::let_go() noexcept {
    over_ = true;
    still_used_ = !net_->abandon();
    for (std::size_t q = 0; q < queues_.size(); ++q)
        std::atomic_ref(queues_[q].at->delivered).store(numbers_[q], std::memory_order_release);
}

// Does the same as awaited(), with the lock held.
std::string mpi_bridge::what_waits() const {
    for (const queue_state& l : queues_) {
        if (l.batches.empty() || !l.batches.front().begun) continue;
        const batch& p = l.batches.front();
        std::vector<int> ranks;
        for (const direction* d : {&p.in, &p.out})
            for (const message& m : d->all)
                if (m.left > 0) ranks.push_back(callers_rank_[at(m.peer)]);
        keep_different(ranks);
        return fmt::format("stage {} waits for rank {}", p.stage, fmt::join(ranks, ", "));
    }
    return {};
}

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

// Allocates the counters, and checks that streams can use them.
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

// Returns the next free place in host memory, aligned to a cache line.
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

// Enqueues all operations of the stream at once, so the stream needs no later operation to continue.
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
