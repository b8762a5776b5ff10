#include "executor/engine.hpp"

#include <fmt/format.h>

namespace terrace::detail {

engine::engine(endpoint& net, int lanes, recorder& events)
    : net_(net),
      events_(events),
      block_size_(program::request_slots(lanes)),
      request_blocks_(most_running),
      lane_slots_(net.can().slots) {
    calls_.reserve(4 * most_running);
}

std::uint64_t engine::issue(program& p, const call_buffers& b, const call_stamp& stamp) {
    p.set_buffers(b);
    lane_slots_.assign(p);
    calls_.push_back({++issued_, &p, stamp});
    return issued_;
}

void engine::follow_waits() {
    waits_.follow([&]() -> std::optional<call_counts::place> {
        if (calls_.empty() || calls_.front().request_block < 0) return {};
        return calls_.front().run->first_awaited();
    });
}

void engine::begin(pending_call& c) noexcept {
    const auto unused = std::find(request_blocks_.begin(), request_blocks_.end(), nullptr);
    *unused = c.run;
    c.request_block = static_cast<int>(unused - request_blocks_.begin());
    lane_slots_.occupy(*c.run, true);
    c.first_event = events_.count();
    c.run->start({.number = c.number,
                  .through = calls_.front().number - 1,
                  .most_in_flight = most_running,
                  .history = c.stamp.history,
                  .first_request = c.request_block * block_size_},
                 events_);
}

bool engine::progress() noexcept {
    bool moved = false;
    for (pending_call& c : calls_) {
        if (c.request_block < 0) {
            // Messages of calls whose numbers differ by most_running have the same tags. All later calls wait, too.
            if (c.number - calls_.front().number >= most_running || !lane_slots_.are_free(*c.run)) break;
            begin(c);
            moved = true;
        }
        moved |= c.run->advance();
        if (c.begun == 0 && events_.count() > c.first_event) c.begun = events_.ticks_of(c.first_event);
    }
    for (int slot : net_.poll()) {
        const std::size_t block = at(slot / block_size_);
        if (block < request_blocks_.size()) request_blocks_[block]->complete_request(slot);
        else others_(slot);
        moved = true;
    }
    if (moved) waits_.end();
    finish();
    return moved;
}

void engine::finish() noexcept {
    std::erase_if(calls_, [&](const pending_call& c) {
        if (c.request_block < 0 || !c.run->done()) return false;
        request_blocks_[at(c.request_block)] = nullptr;
        c.run->give_back(scratch_);
        counts().ended(c.run->made_for().counted_as, c.run->made_for().bytes,
                       c.begun == 0 ? 0 : events_.ticks_of(events_.count() - 1) - c.begun);
        lane_slots_.occupy(*c.run, false);
        return true;
    });
}

void engine::add_waits(const std::vector<int>& callers_rank, waiting& all) const {
    for (const pending_call& c : calls_) {
        if (c.request_block >= 0) c.run->add_waits(callers_rank, all);
        else all.lines.push_back(fmt::format("call {}: waiting for earlier calls", c.number));
    }
}

}  // namespace terrace::detail
