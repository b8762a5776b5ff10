#include "executor/engine.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"

namespace terrace {

engine::engine(transport& net, int lanes, recorder& events)
    : net_(net),
      events_(events),
      berth_slots_(program::slots(lanes)),
      berths_(most_running),
      turns_(static_cast<std::size_t>(net.can().slots)),
      taken_(turns_.size()) {
    net_.reserve(berth_slots_ * most_running);
    flights_.reserve(4 * most_running);
}

// Every rank gives the same slots to the same call, whether or not it has a use for them.
std::uint64_t engine::issue(program& p, const void* send, void* recv) {
    for (int l = 0; l < p.placed_lanes(); ++l) {
        std::uint64_t& turn = turns_[static_cast<std::size_t>(next_slot_)];
        p.place_lane(l, {next_slot_, turn});
        turn += static_cast<std::uint64_t>(p.chunks_of(l));
        next_slot_ = wrap(next_slot_ + 1, static_cast<int>(turns_.size()));
    }
    flights_.push_back({++calls_, &p, send, recv});
    return calls_;
}

std::chrono::duration<double> engine::age() noexcept {
    if (flights_.empty()) return {};
    const auto now = std::chrono::steady_clock::now();
    auto& since = flights_.front().since;
    if (since == std::chrono::steady_clock::time_point{}) since = now;
    return now - since;
}

bool engine::done(std::uint64_t call) const noexcept {
    return std::none_of(flights_.begin(), flights_.end(), [&](const flight& f) { return f.call == call; });
}

bool engine::beginning() const noexcept {
    return std::any_of(flights_.begin(), flights_.end(),
                       [](const flight& f) { return f.berth >= 0 && f.run->beginning(); });
}

// Messages of calls that are most_running apart have the same tags.
bool engine::may_begin(const flight& f) const noexcept {
    if (f.call - flights_.front().call >= most_running) return false;
    for (int l = 0; l < f.run->placed_lanes(); ++l)
        if (taken_[static_cast<std::size_t>(f.run->lane_place(l).slot)]) return false;
    return true;
}

void engine::begin(flight& f) noexcept {
    f.berth = static_cast<int>(std::find(berths_.begin(), berths_.end(), nullptr) - berths_.begin());
    berths_[static_cast<std::size_t>(f.berth)] = f.run;
    for (int l = 0; l < f.run->placed_lanes(); ++l) taken_[static_cast<std::size_t>(f.run->lane_place(l).slot)] = true;
    f.run->start(f.send, f.recv,
                 {.call = f.call,
                  .through = flights_.front().call - 1,
                  .window = most_running,
                  .first_slot = f.berth * berth_slots_},
                 events_);
}

bool engine::progress() noexcept {
    bool moved = false;
    for (flight& f : flights_) {
        if (f.berth < 0) {
            if (!may_begin(f)) break;  // those behind it come later, too
            begin(f);
            moved = true;
        }
        moved |= f.run->advance();
    }
    for (int slot : net_.poll()) {
        berths_[static_cast<std::size_t>(slot / berth_slots_)]->complete_slot(slot);
        moved = true;
    }
    finish();
    return moved;
}

void engine::finish() noexcept {
    for (auto f = flights_.begin(); f != flights_.end();) {
        if (f->berth < 0 || !f->run->done()) {
            ++f;
            continue;
        }
        berths_[static_cast<std::size_t>(f->berth)] = nullptr;
        for (int l = 0; l < f->run->placed_lanes(); ++l)
            taken_[static_cast<std::size_t>(f->run->lane_place(l).slot)] = false;
        f = flights_.erase(f);
    }
}

void check_fault(const transport& net) {
    if (const auto& f = net.fault()) throw transport_error(f->library, f->call, f->code, f->message);
}

void run_alone(program& p, transport& net, const void* send, void* recv) {
    recorder events(false);
    engine e(net, p.lanes(), events);
    e.issue(p, send, recv);
    while (!e.idle()) {
        if (!e.progress()) net.idle();
        check_fault(net);
    }
}

void engine::add_waits(const std::vector<int>& callers_rank, waiting& all) const {
    for (const flight& f : flights_) {
        if (f.berth < 0) {
            all.lines.push_back(fmt::format("call {}: begins after those before it", f.call));
            continue;
        }
        for (const program::wait& w : f.run->waits()) {
            const int peer = callers_rank[static_cast<std::size_t>(w.peer)];
            all.ranks.insert(peer);
            all.lines.push_back(fmt::format("call {}: stage {} {}, step {}, chunk {}: {} rank {}", f.call, w.stage,
                                            w.down ? "down" : "up", w.step, w.chunk, w.what, peer));
        }
    }
}

}  // namespace terrace
