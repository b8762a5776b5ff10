#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "control/router.hpp"
#include "statistics/message_times.hpp"

namespace terrace::detail {

/// Reports to rank 0 of the plan when long messages between nodes began and were complete. Each rank records these
/// times by the clock of rank 0, from the moment when rank 0 starts the recording.
class link_reports final : public control_service {
public:
    using clock = message_times::clock;
    /// Receives a rank's records of its messages with a peer.
    using collector = std::function<void(std::uint32_t window, int rank, int peer, bool sends, const message_sample&)>;

    explicit link_reports(control_router& router) : control_service(router, service::link_report) {}
    /// Returns the object that records messages. It must get all messages, since both ends count them. To be called
    /// before any other function. @param far by rank: true if it is on another node
    message_times& note(std::vector<bool> far) { return times_.emplace(std::move(far), every()); }

    /// On rank 0: starts the recording on all ranks. @param take receives the records of all ranks
    void begin(collector take);
    /// Returns n if ranks record every n-th window. n grows with the ranks, since each sends messages to rank 0.
    std::uint32_t every() const noexcept { return 1 + static_cast<std::uint32_t>(net_.size()) / 128; }
    /// Returns true if it is time to call look(). Ranks do this while they wait.
    bool has_work(clock::time_point now) noexcept;
    /// Sends the new records to rank 0, and from time to time a question for its clock.
    void look(clock::time_point now);
    /// Returns the number of the current window. Only after begin().
    std::uint32_t window(clock::time_point now) const noexcept { return times_->window_of(now); }

    /// Sends `end`, before the communicator ends. Once is_open() is false, all messages of this service have been read.
    void end();
    bool is_open() const noexcept { return !open_.empty(); }

private:
    // Time of rank 0, as one answer shows it.
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
    std::set<int> open_;  // ranks that may still have messages of this service to read or to send
};

}  // namespace terrace::detail
