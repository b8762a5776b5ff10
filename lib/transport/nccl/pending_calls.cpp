#include "transport/nccl/pending_calls.hpp"

namespace terrace::detail {

pending_calls::~pending_calls() {
    for (const pending_call& c : calls_) spare_.push_back(c.at);
    for (const events& e : spare_) {
        on_.gpu().drop_event(e.begun);
        on_.gpu().drop_event(e.ended);
    }
}

pending_calls::events pending_calls::take_events() noexcept {
    if (!spare_.empty()) {
        const events e = spare_.back();
        spare_.pop_back();
        return e;
    }
    events e;
    on_.check("cudaEventCreateWithFlags", on_.gpu().make_event(&e.begun));
    on_.check("cudaEventCreateWithFlags", on_.gpu().make_event(&e.ended));
    return e;
}

bool pending_calls::begin(gpu_stream stream, int queues) noexcept {
    caller_ = stream;
    used_ = queues;
    current_ = {current_.number + 1, false};
    on_.use();
    on_.check("cudaStreamIsCapturing", on_.gpu().stream_captured(stream, &current_.captured));
    const bool alone = all_done();
    const events e = take_events();
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
