// Who moves calls along, and what those are told who wait for them.

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "api/core.hpp"
#include "base/at_end.hpp"

namespace terrace::detail {

// A progress thread of the first rank of a node gets the last core, that of the second rank the core before it.
std::unique_ptr<driver> communicator_core::make_driver() {
    const bool from_any = options_.threads == options::threading::any;
    if (!options_.progress_thread && !from_any) return nullptr;
    std::optional<int> core;
    if (options_.progress_thread) {
        const std::vector<int> nodes = net_->ranks().nodes();
        const auto me = nodes.begin() + net_->rank();
        core = static_cast<int>(std::count(nodes.begin(), me, *me));
    }
    const auto there = [this] {
        return !callbacks_.empty() || (options_.progress_thread && !quiet() && !failure_.failed());
    };
    const auto step = [this, w = waiter()](driver::lock& held) mutable {
        bool moved = true;
        try {
            moved = progress();
            if (w.should_yield(moved, net_->spin_limit())) {
                look_around();
                net_->wire().look();
            }
        } catch (...) {
            // Those who wait throw what failure_ holds.
        }
        call_back(held);
        return moved;
    };
    try {
        return std::make_unique<driver>(core, driver::work{there, step});
    } catch (const std::system_error& e) {
        throw usage_error(
            fmt::format("a thread cannot be started: {}; allow more threads (ulimit -u), or leave out options::{}",
                        e.what(), options_.progress_thread ? "progress_thread" : "threads"));
    }
}

bool communicator_core::done(std::uint64_t call) const noexcept {
    if ((call & message_bit) != 0) return messages_->done(call & ~message_bit);
    if ((call & ticket_bit) == 0) return engine_->done(call);
    return calls_->done(call & ~ticket_bit);
}

// What is left to say of a call that is done. @throws its own error, which breaks nothing
void communicator_core::conclude(std::uint64_t call) {
    if ((call & message_bit) != 0) {
        const std::string error = messages_->take_error(call & ~message_bit);
        if (!error.empty()) throw usage_error(error);
    } else if ((call & ticket_bit) != 0) {
        if (const std::exception_ptr error = calls_->close(call & ~ticket_bit)) std::rethrow_exception(error);
    }
}

bool communicator_core::test(std::uint64_t call) {
    auto held = hold();
    const at_end then_call_back([&] { call_back(held); });
    if (!done(call)) {
        expect_begun(call);
        failure_.rethrow();
        if (!progress()) look_around();
        if (!done(call)) return false;
    }
    conclude(call);
    return true;
}

void communicator_core::wait(std::uint64_t call) {
    auto held = hold();
    const at_end then_call_back([&] { call_back(held); });
    expect_begun(call);
    const bool is_timed = times_ && times_->wait_begins(call);
    if (!done(call)) finish(held, call);
    if (is_timed) times_->complete();
    conclude(call);
}

// Only the time counts that somebody waits for a message.
void communicator_core::finish(driver::lock& held, std::uint64_t call) {
    const std::uint64_t message = (call & message_bit) != 0 ? call & ~message_bit : 0;
    messages_->await(message);
    const at_end then_forget([&] { messages_->stop_awaiting(message); });
    for (waiter w; !done(call);) {
        failure_.rethrow();
        if (driver_ && driver_->sleep_until(held, [&] { return failure_.failed() || done(call); })) continue;
        if (w.should_yield(progress(), net_->spin_limit())) wait_a_moment();
        call_back(held);
    }
}

void communicator_core::wait_a_moment() {
    look_around();
    net_->idle();
}

void communicator_core::then(std::uint64_t call, callback f) {
    auto held = hold();
    callbacks_.add(call, std::move(f));
    if (driver_) driver_->wake();
    call_back(held);
}

// Without the lock, since what is called may make calls.
void communicator_core::call_back(driver::lock& held) {
    if (callbacks_.empty()) return;
    std::vector<std::pair<callback, std::exception_ptr>> ready;
    for (auto& [call, function] : callbacks_.take([&](auto each) { return failure_.failed() || done(each); }))
        ready.emplace_back(std::move(function), error_of(call));
    if (ready.empty()) return;
    const bool locked = held.owns_lock();
    if (locked) held.unlock();
    for (const auto& [function, error] : ready) make(function, error);
    if (locked) held = hold();
}

// Returns what there is to tell of a call that is done or has failed; null: it is complete.
std::exception_ptr communicator_core::error_of(std::uint64_t call) {
    return error_in([&] {
        if (!done(call)) failure_.rethrow();
        conclude(call);
    });
}

void communicator_core::make(const callback& f, const std::exception_ptr& error) const {
    try {
        f(error);
    } catch (const std::exception& e) {
        if (options_.log) options_.log(log_level::warn, fmt::format("a callback of a request threw: {}", e.what()));
    }
}

// Of calls that nobody can wait for any more.
void communicator_core::drop_callbacks() {
    const auto gone = std::make_exception_ptr(usage_error(destroyed_too_soon));
    for (const auto& [call, function] : callbacks_.take([](auto) { return true; }))
        make(function, done(call) || failure_.failed() ? error_of(call) : gone);
}

// Messages are looked for while some are in flight, so that collectives do not pay for them.
bool communicator_core::move_along() {
    const bool moved = engine_->progress();
    calls_->end_complete();
    if (messages_->idle() && messages_->sent()) return moved;
    router_->take();
    return messages_->progress() || moved;
}

bool communicator_core::progress() {
    const bool moved = step();
    calls_->begin_waiting();
    return moved;
}

// Everything but what begins calls.
bool communicator_core::step() {
    const bool moved = move_along();
    if (net_->fault()) failure_.latch([&] { check_fault(*net_); });
    return moved;
}

void communicator_core::look_around() {
    failure_.latch([&] { monitor_->look_around(); });
}

// Copied messages that have not left yet are part of sends that are complete. Others' must not wait for this rank.
void communicator_core::deliver_copies() noexcept {
    if (failure_.failed()) return;
    try {
        constexpr auto patience = std::chrono::seconds(1);  // with ranks that have gone, or receive nothing
        const auto until = std::chrono::steady_clock::now() + patience;
        for (waiter w; !messages_->sent();) {
            messages_->drain();
            if (std::chrono::steady_clock::now() > until) return;
            router_->take();
            if (w.should_yield(move_along(), net_->spin_limit())) net_->idle();
            if (net_->fault()) return;
        }
    } catch (...) {
        // There is nobody to tell.
    }
}

bool communicator_core::quiet() const noexcept { return engine_->idle() && messages_->idle() && calls_->none_waits(); }

}  // namespace terrace::detail
