#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "control/router.hpp"
#include "statistics/message_times.hpp"

namespace terrace::detail {

/// Tells rank 0 of the plan when long messages between nodes began and were complete, as each rank notes it by the
/// clock of rank 0, which says when ranks begin.
class link_reports final : public control_service {
public:
    using clock = message_times::clock;
    /// Takes what a rank has noted of its messages with a peer.
    using collector = std::function<void(std::uint32_t window, int rank, int peer, bool sends, const message_sample&)>;

    explicit link_reports(control_router& router) : control_service(router, service::link_report) {}
    /// Returns where messages are to be noted, from the first one on: both ends count them. Before any other function.
    /// @param far by rank: it is on another node
    message_times& note(std::vector<bool> far) { return times_.emplace(std::move(far), every()); }

    /// On rank 0: all ranks begin. @param take what all ranks say
    void begin(collector take);
    /// Of so many windows ranks note one: each rank more means more messages to rank 0.
    std::uint32_t every() const noexcept { return 1 + static_cast<std::uint32_t>(net_.size()) / 128; }
    /// True if it is time to look. Ranks look while they wait.
    bool has_work(clock::time_point now) noexcept;
    /// Says what has been noted, and asks what time it is.
    void look(clock::time_point now);
    /// Returns the window that is open. After begin().
    std::uint32_t window(clock::time_point now) const noexcept { return times_->window_of(now); }

    /// The communicator ends: says so. Then all messages of this service are read once is_open() is false.
    void end();
    bool is_open() const noexcept { return !open_.empty(); }

private:
    // What time it is on rank 0, as one answer shows it.
    struct reading {
        clock::time_point at{};
        clock::duration ahead{}, round_trip{};
    };

    void receive(int from, const control_frame& f) override;
    void take_time(const reading& r);

    std::optional<message_times> times_;
    collector take_;  // on rank 0
    bool has_begun_ = false;
    std::optional<reading> time_;
    clock::time_point next_look_{}, next_question_{};
    int questions_ = 0;
    std::set<int> open_;  // ranks that may not have read all messages of this service, or sent all
};

}  // namespace terrace::detail
