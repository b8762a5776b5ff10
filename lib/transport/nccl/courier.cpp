#include "transport/nccl/courier.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "base/partition.hpp"

namespace terrace {

namespace {

constexpr int window = 8;                                   // pieces under way in each queue and direction
constexpr std::size_t direct_piece = std::size_t{4} << 20;  // [bytes]; an adapter takes long ones from a device
constexpr std::chrono::seconds grace{1};                    // for peers to take what is on its way when all is given up

// Around the end of the numbers, as the device compares them.
bool reached(std::uint32_t& counter, std::uint32_t number) noexcept {
    const std::uint32_t now = std::atomic_ref(counter).load(std::memory_order_acquire);
    return static_cast<std::int32_t>(now - number) >= 0;
}

}  // namespace

courier::courier(std::unique_ptr<transport> net, std::vector<counters*> counts, bool direct,
                 std::vector<int> callers_rank)
    : net_(std::move(net)),
      piece_(direct ? direct_piece : net_->segment()),
      callers_rank_(std::move(callers_rank)),
      numbers_(counts.size()) {
    int slot = 0;
    for (counters* c : counts) {
        line& l = lines_.emplace_back(line{c, {}, {}, {}});
        for (std::vector<int>* free : {&l.in, &l.out})
            for (int i = 0; i < window; ++i) free->push_back(slot++);
    }
    message_of_.resize(at(slot));
    net_->reserve(slot);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

courier::~courier() { stop(); }

bool courier::stop() noexcept {
    if (thread_.joinable()) {
        thread_.request_stop();
        thread_.join();
    }
    if (!over_ && (given_up_ || net_->in_flight() > 0 || net_->fault())) let_go();
    return still_used_;
}

// ---- parcels come in ------------------------------------------------------------------------------------------------

void courier::open(int queue, std::string_view stage) {
    {
        const std::lock_guard lock(guard_);
        if (!spare_.empty()) open_.splice(open_.end(), spare_, spare_.begin());
    }
    if (open_.empty()) open_.emplace_back();
    parcel& p = open_.front();
    for (direction* d : {&p.in, &p.out}) {
        d->all.clear();
        d->next = 0;
        d->piece = 0;
    }
    p.stage = stage;
    p.queue = queue;
    p.begun = false;
}

void courier::send(int peer, const std::byte* from, std::size_t bytes) {
    open_.front().out.all.push_back({peer, const_cast<std::byte*>(from), bytes, 0});
}

void courier::recv(int peer, std::byte* to, std::size_t bytes) { open_.front().in.all.push_back({peer, to, bytes, 0}); }

std::uint32_t courier::close() {
    parcel& p = open_.front();
    const std::uint32_t number = p.number = ++numbers_[at(p.queue)];
    {
        const std::lock_guard lock(guard_);
        fresh_.splice(fresh_.end(), open_);
    }
    there_.notify_one();
    return number;
}

// ---- and go out -----------------------------------------------------------------------------------------------------

void courier::run(const std::stop_token& stop) {
    for (waiter w(*net_); take_over(stop);)
        if (w.tires(look())) net_->idle();
}

// What has come in, in exchange for what has been delivered. False at the end.
bool courier::take_over(const std::stop_token& stop) {
    std::unique_lock lock(guard_);
    there_.wait(lock, stop, [this] { return !over_ && (under_way_ > 0 || !fresh_.empty() || given_up_); });
    if (stop.stop_requested()) return false;
    const std::lock_guard working(working_);
    for (; !fresh_.empty(); ++under_way_) {
        std::list<parcel>& line = lines_[at(fresh_.front().queue)].parcels;
        line.splice(line.end(), fresh_, fresh_.begin());
    }
    under_way_ -= delivered_.size();
    spare_.splice(spare_.end(), delivered_);
    return true;
}

bool courier::look() {
    const std::lock_guard lock(working_);
    if (given_up_) return wind_up();
    if (fault_) return false;
    bool moved = false;
    for (line& l : lines_) moved |= begin(l);
    moved |= move_along();
    for (line& l : lines_) {
        if (l.parcels.empty() || !l.parcels.front().begun) continue;
        if (l.parcels.front().in.left + l.parcels.front().out.left == 0) deliver(l);
    }
    if (const std::optional<transport_fault>& f = net_->fault()) {
        fault_ = f;
        for (const line& l : lines_)
            if (!l.parcels.empty() && l.parcels.front().begun) {
                fault_->message += "; " + waits_of(l.parcels.front());
                break;
            }
    }
    return moved;
}

// The first parcel of a queue, once its stream says that it may leave, and the pieces of it that there are slots for.
bool courier::begin(line& l) {
    if (l.parcels.empty()) return false;
    parcel& p = l.parcels.front();
    const bool begins = !p.begun && reached(l.at->ready, p.number);
    if (begins)
        for (direction* d : {&p.in, &p.out}) {
            for (message& m : d->all) m.left = pieces(m);
            d->left = d->all.size();
        }
    p.begun |= begins;
    if (p.begun) {
        start(p, p.in, l.in);
        start(p, p.out, l.out);
    }
    return begins;
}

void courier::start(parcel& p, direction& d, std::vector<int>& slots) {
    while (d.next < d.all.size() && !slots.empty()) {
        const message& m = d.all[d.next];
        const int n = pieces(m);
        const range part = partition({0, static_cast<std::int64_t>(m.bytes)}, n, d.piece);
        std::byte* from = m.at + part.begin;
        const auto bytes = static_cast<std::size_t>(part.count());
        const int slot = slots.back();
        slots.pop_back();
        message_of_[at(slot)] = d.next;
        if (&d == &p.in) net_->recv(slot, m.peer, p.queue, from, bytes);
        else net_->send(slot, m.peer, p.queue, from, bytes);
        if (++d.piece == n) ++d.next, d.piece = 0;
    }
}

// What is under way.
bool courier::move_along() {
    const std::span<const int> through = net_->poll();
    for (const int slot : through) note(slot);
    return !through.empty();
}

void courier::note(int slot) {
    line& l = lines_[at(slot / (2 * window))];
    parcel& p = l.parcels.front();
    const bool in = slot / window % 2 == 0;
    direction& d = in ? p.in : p.out;
    (in ? l.in : l.out).push_back(slot);
    if (--d.all[message_of_[at(slot)]].left == 0) --d.left;
}

void courier::deliver(line& l) {
    std::atomic_ref(l.at->delivered).store(l.parcels.front().number, std::memory_order_release);
    delivered_.splice(delivered_.end(), l.parcels, l.parcels.begin());
}

int courier::pieces(const message& m) const noexcept {
    return static_cast<int>(std::max<std::size_t>(div_ceil(m.bytes, piece_), 1));
}

// ---- the end --------------------------------------------------------------------------------------------------------

void courier::give_up() noexcept {
    {
        const std::scoped_lock lock(guard_, working_);
        given_up_ = clock::now();
    }
    there_.notify_one();
}

// Streams that go on write to what is being sent: peers that are there get it first, as it was.
bool courier::wind_up() {
    const bool moved = !net_->fault() && move_along();
    const bool sending = std::any_of(lines_.begin(), lines_.end(), [](const line& l) { return l.out.size() < window; });
    if (!sending || net_->fault() || clock::now() - *given_up_ > grace) let_go();
    return moved;
}

void courier::let_go() noexcept {
    over_ = true;
    still_used_ = !net_->abandon();
    for (std::size_t q = 0; q < lines_.size(); ++q)
        std::atomic_ref(lines_[q].at->delivered).store(numbers_[q], std::memory_order_release);
}

std::optional<transport_fault> courier::fault() const {
    const std::lock_guard lock(working_);
    return fault_;
}

std::string courier::awaited() const {
    const std::lock_guard lock(working_);
    for (const line& l : lines_)
        if (!l.parcels.empty() && l.parcels.front().begun) return waits_of(l.parcels.front());
    return {};
}

std::string courier::waits_of(const parcel& p) const {
    std::vector<int> ranks;
    for (const direction* d : {&p.in, &p.out})
        for (const message& m : d->all)
            if (m.left > 0) ranks.push_back(callers_rank_[at(m.peer)]);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return fmt::format("stage {} waits for rank {}", p.stage, fmt::join(ranks, ", "));
}

}  // namespace terrace
