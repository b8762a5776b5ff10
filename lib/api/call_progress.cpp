#include "api/call_progress.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/at_end.hpp"
#include "calls/failure_state.hpp"

namespace terrace::detail {

namespace {

// Requests of calls carry the engine's call numbers. Those of messages and of queued calls have one more bit set.
constexpr std::uint64_t message_bit = std::uint64_t{1} << 63, ticket_bit = call_admission::ticket_bit;

void make(const callback& f, const std::exception_ptr& error, const options& o) {
    or_warn(o, "a callback of a request threw: ", [&] { f(error); });
}

}  // namespace

// A node's first rank has its progress thread on the last core, its second rank on the core before that, and so on.
void call_progress::start_thread() {
    const bool from_any = with_.o.threads == options::threading::any;
    if (!with_.o.progress_thread && !from_any) return;
    std::optional<int> core;
    if (with_.o.progress_thread) core = with_.net.ranks().place_on_node();
    const auto there = [this] {
        return !callbacks_.empty() || (with_.o.progress_thread && !is_quiet() && !with_.failure.is_broken());
    };
    const auto step = [this, w = waiter()](driver::lock& held) mutable {
        bool moved = true;
        error_in([&] {  // waiting callers throw the error that the failure state holds
            moved = progress();
            if (!w.should_yield(moved, with_.net.spin_limit())) return;
            look_around();
            with_.net.wire().look();
        });
        call_back(held);
        return moved;
    };
    try {
        driver_ = std::make_unique<driver>(core, driver::work{there, step});
    } catch (const std::system_error& e) {
        throw usage_error(
            fmt::format("a thread cannot be started: {}; allow more threads (ulimit -u), or leave out options::{}",
                        e.what(), with_.o.progress_thread ? "progress_thread" : "threads"));
    }
}

// Callbacks of calls that are not complete get an error: these calls can never complete.
void call_progress::stop() {
    if (driver_) driver_->stop();  // the thread uses driver_ until it has ended
    const auto gone = std::make_exception_ptr(usage_error(destroyed_too_soon));
    for (const auto& [call, function] : std::exchange(callbacks_, {}))
        make(function, done(call) || with_.failure.is_broken() ? error_of(call) : gone, with_.o);
}

bool call_progress::done(std::uint64_t call) const noexcept {
    if ((call & message_bit) != 0) return with_.control.messages.operations().done(call & ~message_bit);
    if ((call & ticket_bit) == 0) return with_.running.done(call);
    return with_.calls.queue().done(call & ~ticket_bit);
}

// Releases the state of a call that is done. @throws the call's own error, which does not break the communicator
void call_progress::conclude(std::uint64_t call) {
    if ((call & message_bit) != 0) {
        const std::string error = with_.control.messages.operations().take_error(call & ~message_bit);
        if (!error.empty()) throw usage_error(error);
    } else if ((call & ticket_bit) != 0) {
        if (const std::exception_ptr error = with_.calls.queue().close(call & ~ticket_bit))
            std::rethrow_exception(error);
    }
}

bool call_progress::test(std::uint64_t call) {
    auto held = hold();
    const at_end then_call_back([&] { call_back(held); });
    if (!done(call)) {
        expect_begun(call);
        with_.failure.rethrow();
        if (!progress()) look_around();
        if (!done(call)) return false;
    }
    conclude(call);
    return true;
}

void call_progress::wait(std::uint64_t call) {
    auto held = hold();
    const at_end then_call_back([&] { call_back(held); });
    expect_begun(call);
    call_times* const times = with_.reports.times();
    const bool is_timed = times != nullptr && times->wait_begins(call);
    if (!done(call)) finish(held, call);
    if (is_timed) times->complete();
    conclude(call);
}

// The wait for a message counts towards the timeout only while a caller waits for the message.
void call_progress::finish(driver::lock& held, std::uint64_t call) {
    const std::uint64_t message = (call & message_bit) != 0 ? call & ~message_bit : 0;
    with_.control.messages.operations().await(message);
    const at_end then_forget([&] { with_.control.messages.operations().stop_awaiting(message); });
    for (waiter w; !done(call);) {
        with_.failure.rethrow();
        if (driver_ && driver_->sleep_until(held, [&] { return with_.failure.is_broken() || done(call); })) continue;
        if (w.should_yield(progress(), with_.net.spin_limit())) wait_a_moment();
        call_back(held);
    }
}

void call_progress::then(std::uint64_t call, callback f) {
    auto held = hold();
    callbacks_.push_back({call, std::move(f)});
    wake();
    call_back(held);
}

// Callbacks run without the lock, since they may make calls.
void call_progress::call_back(driver::lock& held) {
    if (callbacks_.empty()) return;
    const auto waits = [&](const continuation& c) { return !with_.failure.is_broken() && !done(c.call); };
    const auto first = std::stable_partition(callbacks_.begin(), callbacks_.end(), waits);
    if (first == callbacks_.end()) return;
    std::vector<std::pair<callback, std::exception_ptr>> ready;
    for (auto c = first; c != callbacks_.end(); ++c) ready.emplace_back(std::move(c->function), error_of(c->call));
    callbacks_.erase(first, callbacks_.end());
    const bool locked = held.owns_lock();
    if (locked) held.unlock();
    for (const auto& [function, error] : ready) make(function, error, with_.o);
    if (locked) held = hold();
}

// Returns the error of a call that is done or has failed; null if the call succeeded.
std::exception_ptr call_progress::error_of(std::uint64_t call) {
    return error_in([&] {
        if (!done(call)) with_.failure.rethrow();
        conclude(call);
    });
}

// Messages are only polled while some are in flight, so they do not slow down collectives.
bool call_progress::move_along() {
    const bool moved = with_.running.progress();
    with_.calls.queue().end_complete();
    if (with_.control.messages.operations().empty() && with_.control.messages.sent()) return moved;
    with_.control.router.receive();
    return with_.control.messages.progress() || moved;
}

bool call_progress::progress() {
    const bool moved = step();
    constexpr unsigned few = 8;  // passes, since one takes milliseconds if ranks share cores
    if (++passes_ % few == 0) with_.reports.look_at_links(with_.running);
    with_.calls.queue().begin_waiting();
    return moved;
}

// Skips progress(), which polls the network, if the message is complete and no copies are waiting to leave.
request call_progress::message_begun(std::uint64_t message) {
    if (!with_.control.messages.operations().done(message) || !with_.control.messages.sent()) {
        progress();
        wake();
    }
    return request_access::make(*this, message | message_bit);
}

void call_progress::deliver_copies() noexcept {
    if (with_.failure.is_broken()) return;
    try {
        constexpr auto patience = std::chrono::seconds(1);  // for ranks that have ended or do not receive
        const auto until = std::chrono::steady_clock::now() + patience;
        for (waiter w; !with_.control.messages.sent();) {
            with_.control.messages.drain();
            if (std::chrono::steady_clock::now() > until) return;
            with_.control.router.receive();
            if (w.should_yield(move_along(), with_.net.spin_limit())) with_.net.idle();
            if (with_.net.fault()) return;
        }
    } catch (...) {
        // No caller is left to get the error.
    }
}

}  // namespace terrace::detail
