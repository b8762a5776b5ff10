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

/// Moves the calls and messages of a communicator along, for callers that wait and by its own thread, and says when
/// they are complete.
class call_progress final : public calls_in_flight {
public:
    /// What it moves along. All must outlive it.
    struct parts : wait_monitor::subject {
        endpoint& net;
        call_admission& calls;
        failure_state& failure;
        const options& o;
    };

    explicit call_progress(const parts& with) : with_(with), monitor_(with, with.o) {}

    /// Starts its thread, where options ask for one. Collective. @throws usage_error if there cannot be a thread
    void start_thread();
    /// Ends the thread, and makes the callbacks that are left. Nobody may use it afterwards.
    void stop();
    /// Takes the communicator's one lock, which guards all that it consists of. Empty where one thread alone makes
    /// calls and none drives them: options::threads and options::progress_thread.
    driver::lock hold() { return driver_ ? driver_->hold() : driver::lock{}; }
    /// Says that there may be work that no caller waits for. The lock must be held.
    void wake() {
        if (driver_) driver_->wake();
    }

    bool test(std::uint64_t call) override;
    void wait(std::uint64_t call) override;
    void then(std::uint64_t call, callback f) override;
    /// Returns the request of a message that has begun.
    request message_begun(std::uint64_t message);
    /// Makes as much progress as a call that has been issued needs no other rank for: its caller may do something else
    /// for a long time.
    void begun() {
        do step();
        while (with_.running.beginning());
        wake();
    }
    /// Moves calls along until it is true. The caller holds the lock throughout, so that no other thread begins a call.
    template <class Done>
    void drive_until(Done done) {
        for (waiter w; !done();) {
            with_.failure.rethrow();
            if (w.should_yield(progress(), with_.net.spin_limit())) wait_a_moment();
        }
    }
    /// Moves calls along, and begins none. Returns true if anything happened.
    bool move_along();
    /// What a rank does while calls are compared: wait_monitor::watch.
    void watch() { monitor_.watch(); }
    /// True if nothing is in flight or waits.
    bool is_quiet() const noexcept {
        return with_.running.idle() && with_.control.messages.operations().empty() && with_.calls.queue().none_waits();
    }
    /// Lets copied messages leave that are part of sends that are complete. Others' need not wait for this rank.
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
    // Does everything but beginning calls.
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
