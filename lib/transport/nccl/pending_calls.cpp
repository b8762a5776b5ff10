#include "transport/nccl/pending_calls.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"

namespace terrace::detail {

operation_log::~operation_log() {
    for (const mark& m : marks_)
        if (m.passed != nullptr) gpu_.drop_event(m.passed);
}

void operation_log::begin(const call_position& where) noexcept {
    if (!kept_) return;
    if (next_ % most == marks_.size()) marks_.emplace_back();
    mark& m = marks_[next_ % most];
    m.where = where;
    m.ranks.clear();
}

int operation_log::end(gpu_stream stream) noexcept {
    if (!kept_) return 0;
    mark& m = marks_[next_++ % most];
    if (m.passed == nullptr)
        if (const int code = gpu_.make_event(&m.passed); code != 0) return code;
    return gpu_.record(m.passed, stream);
}

std::string operation_log::stuck(const std::function<bool(gpu_event)>& passed, int self,
                                 const std::vector<int>& callers_rank) const {
    const std::size_t oldest = next_ - std::min(next_, most);
    for (std::size_t n = oldest; n < next_; ++n) {
        const mark& m = marks_[n % most];
        if (passed(m.passed)) continue;
        std::vector<int> ranks;
        for (const int r : m.ranks)
            if (r != self) ranks.push_back(callers_rank[static_cast<std::size_t>(r)]);
        keep_different(ranks);
        const bool forgotten = n == oldest && oldest > 0;  // an earlier one may be the one that waits
        return fmt::format("{}stage {} {}, step {}, chunk {} waits for rank {}", forgotten ? "at or before " : "",
                           m.where.stage, m.where.down ? "down" : "up", m.where.step, m.where.chunk,
                           fmt::join(ranks, " or "));
    }
    return {};
}

pending_calls::~pending_calls() {
    for (const pending_call& c : calls_) spare_.push_back(c.at);
    for (const events& e : spare_) {
        on_.gpu().drop_event(e.begun);
        on_.gpu().drop_event(e.ended);
    }
}

bool pending_calls::begin(gpu_stream stream, int queues) noexcept {
    caller_ = stream;
    used_ = queues;
    current_ = {current_.number + 1, false};
    on_.use();
    on_.check("cudaStreamIsCapturing", on_.gpu().stream_captured(stream, &current_.captured));
    const bool alone = all_done();
    if (spare_.empty()) {
        events& made = spare_.emplace_back();
        on_.check("cudaEventCreateWithFlags", on_.gpu().make_event(&made.begun));
        on_.check("cudaEventCreateWithFlags", on_.gpu().make_event(&made.ended));
    }
    const events e = spare_.back();
    spare_.pop_back();
    calls_.push_back({current_.number, e, {}});
    on_.check("cudaEventRecord", on_.gpu().record(e.begun, stream));
    for (int q = 0; q < queues; ++q) on_.check("cudaStreamWaitEvent", on_.gpu().wait(on_.at(q).stream, e.begun));
    return alone;
}

std::uint64_t pending_calls::end() noexcept {
    for (int q = 0; q < used_; ++q) {
        on_.check("cudaEventRecord", on_.gpu().record(on_.at(q).last, on_.at(q).stream));
        on_.check("cudaStreamWaitEvent", on_.gpu().wait(caller_, on_.at(q).last));
    }
    const events e = calls_.back().at;
    if (current_.captured) {
        spare_.push_back(e);
        calls_.pop_back();
        graphs_ = true;
    } else {
        on_.check("cudaEventRecord", on_.gpu().record(e.ended, caller_));
    }
    return current_.number;
}

bool pending_calls::all_done() noexcept {
    while (!calls_.empty() && on_.reached(calls_.front().at.ended)) {
        spare_.push_back(calls_.front().at);
        calls_.pop_front();
    }
    return calls_.empty();
}

std::optional<std::uint64_t> pending_calls::find_late() noexcept {
    if (calls_.empty()) return {};
    pending_call& oldest = calls_.front();
    if (oldest.since == clock::time_point{} && on_.reached(oldest.at.begun)) oldest.since = clock::now();
    if (oldest.since == clock::time_point{} || timeout_.count() == 0 || clock::now() - oldest.since <= timeout_)
        return {};
    return oldest.number;
}

}  // namespace terrace::detail
