#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include <terrace/gradients.hpp>

#include "base/at_end.hpp"

namespace terrace::detail {

/// Measures the times of iterations on one rank.
class iteration_clock {
public:
    using time = std::chrono::steady_clock::time_point;

    /// Counts the time until the destruction of the result as spent in the reducer.
    auto inside() noexcept {
        return at_end([this, since = now()] { inside_ += now() - since; });
    }
    /// Writes slices to the trace of a communicator, if there is one. The communicator must outlive this.
    void trace_to(communicator& comm) {
        if (comm.is_traced()) trace_ = &comm;
    }
    bool is_traced() const noexcept { return trace_ != nullptr; }
    void slice(std::string_view track, std::string_view name, time begin, time end) const {
        if (trace_ != nullptr) trace_->trace(track, name, begin, end);
    }
    /// Writes the slice of a gradient that is ready. The slice begins at the end of the slice before.
    void gradient_is_ready(const std::string& name) {
        if (trace_ == nullptr) return;
        const time t = now();
        trace_->trace("gradients", name, std::max(last_gradient_, begin_), t);
        last_gradient_ = t;
    }
    static time now() noexcept { return std::chrono::steady_clock::now(); }

    /// Counts a call that has been started, or was found to be complete.
    void started() noexcept {
        if (in_flight_++ == 0) busy_since_ = now();
    }
    void completed() noexcept {
        if (--in_flight_ == 0) busy_ += now() - busy_since_;
    }
    /// Records the call of finish().
    void finishing() noexcept {
        finishing_ = now();
        hidden_ = busy_ + (in_flight_ > 0 ? finishing_ - busy_since_ : duration{});
    }
    /// Records the return of finish(), with reduced gradients.
    void finished() {
        const time end = now();
        last_.compute = seconds(finishing_ - begin_ - inside_);
        last_.communication = seconds(busy_);
        last_.hidden = seconds(hidden_);
        last_.exposed = seconds(end - finishing_);
        slice("iteration", "compute", begin_, finishing_);
        slice("iteration", "exposed", finishing_, end);
        any_ = true;
        begin_ = end;
        inside_ = busy_ = hidden_ = {};
    }
    /// Returns the times of the last iteration that was reduced, without `waiting`.
    const gradient_times& last() const noexcept { return last_; }
    /// Returns true if an iteration has been reduced.
    bool any() const noexcept { return any_; }

private:
    using duration = std::chrono::steady_clock::duration;

    static double seconds(duration d) noexcept { return std::chrono::duration<double>(d).count(); }

    time begin_ = now(), busy_since_, finishing_;
    duration inside_{}, busy_{}, hidden_{};
    int in_flight_ = 0;
    bool any_ = false;
    gradient_times last_;
    time last_gradient_;
    communicator* trace_ = nullptr;  // null: none
};

}  // namespace terrace::detail
