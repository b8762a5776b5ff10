#pragma once

#include <exception>
#include <memory>
#include <vector>

#include <terrace/options.hpp>

#include "api/driver.hpp"
#include "api/wait_monitor.hpp"
#include "calls/call_admission.hpp"
#include "calls/calls_in_flight.hpp"

namespace terrace::detail {

/// Makes progress on the calls and messages of a communicator, for waiting callers and in the communicator's own
/// thread. Runs callbacks once their calls are complete.
class call_progress final : public calls_in_flight {
public:
    /// The parts of the communicator, which must outlive this object.
    struct parts : wait_monitor::subject {
        endpoint& net;
        call_admission& calls;
        failure_state& failure;
        const options& o;
    };

    explicit call_progress(const parts& with) : with_(with), monitor_(with, with.o) {}

    /// Starts the thread if options require one. Collective. @throws usage_error if no thread can start
    void start_thread();
    /// Ends the thread and calls the remaining callbacks. No other thread may use this object afterwards.
    void stop();
    /// Takes the communicator's only lock, which guards all its parts. Returns an empty lock if there is no driver: one
    /// thread makes all calls, without a progress thread (options::threads, options::progress_thread).
    driver::lock hold() { return driver_ ? driver_->hold() : driver::lock{}; }
    /// Wakes the thread if there is work that no caller waits for. The lock must be held.
    void wake() {
        if (driver_) driver_->wake();
    }

    bool test(std::uint64_t call) override;
    void wait(std::uint64_t call) override;
    void then(std::uint64_t call, callback f) override;
    /// Returns the request of a message that has been started.
    request message_begun(std::uint64_t message);
    /// Progresses an issued call as far as it needs no other rank, since its caller may do something else for a long
    /// time.
    void begun() {
        do step();
        while (with_.running.beginning());
        wake();
    }
    /// Makes progress until done() is true. The caller holds the lock throughout, so no other thread starts a call.
    template <class Done>
    void drive_until(Done done) {
        for (waiter w; !done();) {
            with_.failure.rethrow();
            if (w.should_yield(progress(), with_.net.spin_limit())) wait_a_moment();
        }
    }
    /// Makes progress on issued calls and on messages; issues no further calls. Returns true if anything happened.
    bool move_along();
    /// Does the checks of a waiting rank while calls are compared: wait_monitor::watch.
    void watch() { monitor_.watch(); }
    /// Returns true if no call or message is in flight or waits.
    bool is_quiet() const noexcept {
        return with_.running.idle() && with_.control.messages.operations().empty() && with_.calls.queue().none_waits();
    }
    /// Sends copies that complete sends have left, and receives copies from peers, so their senders need not wait.
    void deliver_copies() noexcept;

private:
    bool done(std::uint64_t call) const noexcept;
    void expect_begun(std::uint64_t call) {
        constexpr std::uint64_t bit = call_admission::ticket_bit;
        if ((call & bit) != 0) with_.calls.expect_begun(call & ~bit);
    }
    void conclude(std::uint64_t call);
    void finish(driver::lock& held, std::uint64_t call);
    void call_back(driver::lock& held);
    std::exception_ptr error_of(std::uint64_t call);
    bool progress();
    // Makes progress and checks for a fault of the network; issues no further calls.
    bool step() {
        const bool moved = move_along();
        if (with_.net.fault()) with_.failure.latch([&] { check_fault(with_.net); });
        return moved;
    }
    void look_around() {
        with_.failure.latch([&] { monitor_.look_around(); });
    }
    void wait_a_moment() {
        look_around();
        with_.net.idle();
    }

    struct continuation {
        std::uint64_t call;
        callback function;
    };

    parts with_;
    wait_monitor monitor_;
    std::vector<continuation> callbacks_;  // in the order added
    unsigned passes_ = 0;
    std::unique_ptr<driver> driver_;
};

}  // namespace terrace::detail
