#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <terrace/message.hpp>
#include <terrace/types.hpp>

#include "executor/recorder.hpp"
#include "executor/waits.hpp"

namespace terrace::detail {

/// A message of a caller at one end.
struct callers_message {
    int rank = 0, tag = 0;  ///< of the other end; any_source where a receive accepts all
    element_type type = element_type::float32;
    std::size_t bytes = 0;  ///< of the message, or the most that a receive accepts
};

/// A send or a receive that is in flight.
struct message_operation {
    callers_message what;
    bool sends = false;
    const std::byte* from = nullptr;  ///< of a send
    std::byte* to = nullptr;          ///< of a receive
    received* result = nullptr;       ///< is set when a receive is done; or null
    std::size_t bytes = 0;            ///< of the message, once a receive has its envelope
    int source = -1;
    std::uint64_t sender = 0;          ///< number of the send by rendezvous at the other end
    std::size_t posted = 0, over = 0;  ///< pieces of a rendezvous
    int row = -1;                      ///< of the trace
    std::chrono::steady_clock::time_point since{};
};

/// The sends and receives of a rank that are in flight, by number from 1. Ranks are the plan's.
class message_operations {
public:
    /// @param own rank of this process   @param callers_rank by rank of the plan   @param events gets a slice for each;
    /// both must outlive this
    message_operations(int own, const std::vector<int>& callers_rank, recorder& events)
        : own_(own), callers_rank_(callers_rank), events_(events) {}

    std::uint64_t begin(message_operation o);
    message_operation& operator[](std::uint64_t number) { return active_.at(number); }
    /// Ends one: its result is set.
    void end(std::uint64_t number);
    bool done(std::uint64_t number) const noexcept { return !active_.contains(number); }
    bool empty() const noexcept { return active_.empty(); }

    /// Notes what is wrong with one.
    void fail(std::uint64_t number, std::string why) { errors_.emplace(number, std::move(why)); }
    bool has_failed(std::uint64_t number) const noexcept { return errors_.contains(number); }
    /// Returns what was wrong with one that is done, once; empty if nothing was.
    std::string take_error(std::uint64_t number) {
        auto error = errors_.extract(number);
        return error.empty() ? std::string() : std::move(error.mapped());
    }

    int callers_rank(int rank) const noexcept { return callers_rank_[static_cast<std::size_t>(rank)]; }
    /// Says that a caller now waits for one, for age() and add_waits(). Does nothing for 0.
    void await(std::uint64_t number) {
        if (number != 0) awaited_.emplace(number, std::chrono::steady_clock::now());
    }
    void stop_awaiting(std::uint64_t number) noexcept { awaited_.erase(number); }
    /// Returns how long a caller has waited.
    std::chrono::duration<double> age() const noexcept;
    /// Adds what those wait for that callers wait for.
    void add_waits(waiting& all) const {
        for (const auto& [number, since] : awaited_)
            if (const auto found = active_.find(number); found != active_.end()) add_wait(found->second, all);
    }

private:
    void add_wait(const message_operation& o, waiting& all) const;

    int own_;
    const std::vector<int>& callers_rank_;
    recorder& events_;
    std::uint64_t numbers_ = 0;
    std::map<std::uint64_t, message_operation> active_;
    std::map<std::uint64_t, std::string> errors_;
    std::map<std::uint64_t, std::chrono::steady_clock::time_point> awaited_;  // since when
    std::vector<bool> rows_;                                                  // of the trace, by number: in use
};

}  // namespace terrace::detail
