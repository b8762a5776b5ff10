#include "statistics/call_counts.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

namespace terrace::detail {

namespace {

auto place_of(const auto& w) { return std::tie(w.slice, w.size, w.stage, w.peer); }

}  // namespace

int call_counts::size_of(std::string_view call, std::int64_t bytes) {
    const auto from = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
    auto found = std::ranges::find_if(sizes_, [&](const count& c) { return c.call == call && c.bytes_from == from; });
    if (found == sizes_.end()) found = sizes_.insert(found, {call, from});
    return static_cast<int>(found - sizes_.begin());
}

void call_counts::waited(const place& where, double seconds) noexcept {
    if (where.size < 0) return;
    if (waits_.size() == most_waits) make_room();
    const wait added{(where.call - 1) / calls_per_slice_, where.size, where.stage, where.peer, seconds};
    for (auto w = waits_.rbegin(); w != waits_.rend() && w->slice == added.slice; ++w)
        if (place_of(*w) == place_of(added)) {
            w->seconds += seconds;
            return;
        }
    if (waits_.size() < most_waits) waits_.push_back(added);
}

// If one slice alone has too many waits, further ones are not kept.
void call_counts::make_room() noexcept {
    while (waits_.size() > most_waits / 2 && waits_.back().slice > 0) {
        calls_per_slice_ *= 2;
        for (wait& w : waits_) w.slice /= 2;
        std::ranges::sort(waits_, {}, [](const wait& w) { return place_of(w); });
        auto last = waits_.begin();
        for (auto w = last + 1; w != waits_.end(); ++w)
            if (place_of(*w) == place_of(*last)) last->seconds += w->seconds;
            else *++last = *w;
        waits_.erase(last + 1, waits_.end());
    }
}

statistics call_counts::all(const std::vector<int>& callers_rank, double tick) const {
    statistics s;
    s.calls_per_slice = static_cast<std::int64_t>(calls_per_slice_);
    for (const count& c : sizes_)
        s.calls.push_back({c.call, c.bytes_from, c.calls, c.bytes, static_cast<double>(c.ticks) * tick, 0});
    for (const wait& w : waits_)
        s.waits.push_back({static_cast<std::int64_t>(w.slice * calls_per_slice_) + 1, w.size, w.stage,
                           callers_rank[static_cast<std::size_t>(w.peer)], w.seconds});
    return s;
}

}  // namespace terrace::detail
