#include "control/link_report/link_reports.hpp"

namespace terrace::detail {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds between_reports(2);
constexpr milliseconds soon(20), later(250);  // time between questions; few of them are answered at once
constexpr int quick_questions = 50;
constexpr int apart = 10'000;  // clocks drift apart by less than 1 / apart of the time

// Answer to a question, whose time it repeats.
struct answer {
    std::int64_t asked = 0, answered = 0;  // [ns], by the clocks of the requesting rank and of rank 0
};

std::int64_t ticks(link_reports::clock::time_point t) { return std::chrono::nanoseconds(t.time_since_epoch()).count(); }

}  // namespace

void link_reports::begin(collector take) {
    take_ = std::move(take);
    has_begun_ = true;
    times_->set_ahead({});
    for (int r = 1; r < net_.size(); ++r) {
        open_.insert(r);
        send_control(r, link_kind::begin);
    }
}

bool link_reports::has_work(clock::time_point now) noexcept {
    if (now < next_look_) return false;
    next_look_ = now + between_reports;
    return true;
}

void link_reports::look(clock::time_point now) {
    if (!has_begun_ || !times_) return;
    if (!take_ && now >= next_question_) {
        next_question_ = now + (++questions_ < quick_questions ? soon : later * every());
        send_control(0, link_kind::question, {}, ticks(now));
    }
    times_->take(now, [&](int peer, bool sends, std::uint32_t window, const message_sample& s) {
        if (take_) return take_(window, net_.rank(), peer, sends, s);
        send_control(0, sends ? link_kind::sent : link_kind::received, {static_cast<std::uint16_t>(peer), window}, s);
    });
}

void link_reports::receive(int from, const control_frame& f) {
    const auto now = clock::now();
    switch (static_cast<link_kind>(f.kind)) {
        case link_kind::begin:
            open_.insert(0);
            has_begun_ = true;
            return;
        case link_kind::question:
            return send_control(from, link_kind::answer, {}, answer{f.get<std::int64_t>(), ticks(now)});
        case link_kind::answer: {
            const auto a = f.get<answer>();
            const auto trip = std::chrono::nanoseconds(ticks(now) - a.asked);
            return take_time({now, std::chrono::nanoseconds(a.answered - a.asked) - trip / 2, trip});
        }
        case link_kind::sent:
        case link_kind::received:
            if (take_)
                take_(f.number, from, f.epoch, static_cast<link_kind>(f.kind) == link_kind::sent,
                      f.get<message_sample>());
            return;
        case link_kind::end: open_.erase(from);
    }
}

// The shortest round trip shows the time best, until the clocks may have drifted apart.
void link_reports::take_time(const reading& r) {
    if (time_ && r.round_trip > time_->round_trip + (r.at - time_->at) / apart) return;
    time_ = r;
    if (times_) times_->set_ahead(r.ahead);
}

void link_reports::end() {
    if (take_)
        for (int r = 1; r < net_.size(); ++r) send_control(r, link_kind::end);
    else if (has_begun_) send_control(0, link_kind::end);
}

}  // namespace terrace::detail
