#include "executor/recorder.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <new>
#include <tuple>
#include <utility>

namespace terrace::detail {

namespace {

constexpr std::size_t ring_size = 1024;         // events
constexpr std::size_t most_traced = 4'000'000;  // events: 256 MB

double clock_micros() {
    return std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch()).count();
}

int first_rank_of_thread(int rank) {
    static thread_local int first = rank;
    return first;
}

int next_communicator() {
    static std::atomic<int> communicators = 0;
    return ++communicators;
}

}  // namespace

recorder::recorder(bool everything, int rank)
    : last_(ring_size),
      keeps_all_(everything),
      of_{rank, first_rank_of_thread(rank), next_communicator()},
      start_{now(), clock_micros(), std::chrono::steady_clock::now()} {}

void recorder::keep(const event& e) noexcept {
    if (all_.size() >= most_traced) return;
    try {
        all_.push_back(e);
    } catch (const std::bad_alloc&) {
        keeps_all_ = false;  // the trace ends here
    }
}

double recorder::micros_per_tick() const noexcept {
    return (clock_micros() - start_.micros) / static_cast<double>(std::max<std::uint64_t>(1, now() - start_.ticks));
}

double recorder::micros(std::uint64_t ticks, double per_tick) const noexcept {
    return start_.micros + static_cast<double>(ticks - start_.ticks) * per_tick;
}

void recorder::describe(const traced_call& call) {
    if (keeps_all_ && calls_.size() < most_traced) calls_.push_back(call);
}

void recorder::add(std::string track, std::string name, time_point begin, time_point end) {
    const auto micros_of = [&](time_point t) {
        return start_.micros + std::chrono::duration<double, std::micro>(t - start_.steady).count();
    };
    if (keeps_all_ && spans_.size() < most_traced)
        spans_.push_back({std::move(track), std::move(name), micros_of(begin), micros_of(end)});
}

std::string recorder::dump(const std::vector<std::string>& waits) const {
    std::vector<traced_event> events;
    const double per_tick = micros_per_tick();
    for (std::uint64_t i = written_ - std::min<std::uint64_t>(written_, last_.size()); i < written_; ++i) {
        const event& e = last_[i & (last_.size() - 1)];
        events.push_back({.time = micros(e.ticks, per_tick),
                          .call = e.call,
                          .what = to_string(e.what),
                          .ends = e.ends,
                          .down = e.down,
                          .stage = e.stage,
                          .step = e.step,
                          .lane = e.lane,
                          .peer = e.peer,
                          .chunk = e.chunk});
    }
    return dump_of(of_, waits, events);
}

void recorder::write_trace(const std::filesystem::path& file, const std::string& plan) const {
    std::map<std::tuple<std::uint64_t, int, bool, int, std::int64_t>, std::pair<std::uint64_t, std::uint64_t>> slices;
    for (const event& e : all_) {
        auto& [begin, end] =
            slices.try_emplace({e.call, e.stage, e.down, e.lane, e.chunk}, e.ticks, e.ticks).first->second;
        begin = std::min(begin, e.ticks);
        end = std::max(end, e.ticks);
    }
    std::vector<traced_chunk> chunks;
    chunks.reserve(slices.size());
    const double per_tick = micros_per_tick();
    for (const auto& [key, times] : slices) {
        const auto& [call, stage, down, lane, chunk] = key;
        chunks.push_back(
            {call, stage, lane, down, chunk, micros(times.first, per_tick), micros(times.second, per_tick)});
    }
    append_trace(file, of_, plan, calls_, chunks, spans_);
}

}  // namespace terrace::detail
