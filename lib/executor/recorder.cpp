#include "executor/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <new>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/hosts.hpp"
#include "base/yaml_scalar.hpp"

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

std::atomic<int> communicators = 0;  // created in this process so far

}  // namespace

recorder::recorder(bool everything, int rank)
    : last_(ring_size),
      keeps_all_(everything),
      of_{rank, first_rank_of_thread(rank), ++communicators},
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
    std::string text = fmt::format(
        "{{\n  \"rank\": {},\n  \"host\": {},\n  \"pid\": {},\n  \"communicator\": {},\n  \"time_us\": {:.0f},\n"
        "  \"waits_for\": [",
        of_.rank, in_quotes(host_name()), ::getpid(), of_.communicator, clock_micros());
    const char* between = "";
    for (const std::string& line : waits)
        text += fmt::format("{}\n    {}", std::exchange(between, ","), in_quotes(line));
    text += "\n  ],\n  \"events\": [";
    between = "";
    const double per_tick = micros_per_tick();
    for (std::uint64_t i = written_ - std::min<std::uint64_t>(written_, last_.size()); i < written_; ++i) {
        const event& e = last_[i & (last_.size() - 1)];
        text += fmt::format(
            "{}\n    {{\"time_us\": {:.2f}, \"call\": {}, \"what\": \"{}\", \"ends\": {}, \"stage\": {}, \"down\": {}, "
            "\"step\": {}, \"lane\": {}, \"chunk\": {}, \"peer\": {}}}",
            std::exchange(between, ","), micros(e.ticks, per_tick), e.call, to_string(e.what), e.ends, e.stage, e.down,
            e.step, e.lane, e.chunk, e.peer);
    }
    return text + "\n  ]\n}\n";
}

void recorder::write_trace(const std::filesystem::path& file, const std::string& plan) const {
    std::map<std::tuple<std::uint64_t, int, bool, int, std::int64_t>, traced_chunk> slices;
    const double per_tick = micros_per_tick();
    for (const event& e : all_) {
        const double time = micros(e.ticks, per_tick);
        const traced_chunk made{e.call, e.stage, e.lane, e.down, e.chunk, time, time};
        traced_chunk& part = slices.try_emplace({e.call, e.stage, e.down, e.lane, e.chunk}, made).first->second;
        part.begin = std::min(part.begin, time);
        part.end = std::max(part.end, time);
    }
    std::vector<traced_chunk> chunks;
    chunks.reserve(slices.size());
    for (const auto& [where, part] : slices) chunks.push_back(part);
    append_trace(file, of_, plan, calls_, chunks, spans_);
}

}  // namespace terrace::detail
