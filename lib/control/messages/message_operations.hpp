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

/// Arguments of a caller's send or receive.
struct callers_message {
    int rank = 0, tag = 0;  ///< rank of the other end, or any_source in a receive; tag
    element_type type = element_type::float32;
    std::size_t bytes = 0;  ///< length of the message, or maximum that a receive accepts
};

/// A send or a receive in flight.
struct message_operation {
    callers_message what;
    bool sends = false;
    const std::byte* from = nullptr;  ///< of a send
    std::byte* to = nullptr;          ///< of a receive
    received* result = nullptr;       ///< set when a receive is done; may be null
    std::size_t bytes = 0;            ///< length of the message, once a receive has matched it
    int source = -1;
    std::uint64_t sender = 0;          ///< number of the send, on the rank of the sender
    std::size_t posted = 0, over = 0;  ///< pieces of a rendezvous: posted, and complete
    int row = -1;                      ///< row of the trace; -1: not traced
    std::chrono::steady_clock::time_point since{};
};

/// The sends and receives in flight of a rank, by number from 1. Ranks are numbered as in the plan.
class message_operations {
public:
    /// @param own rank of this process   @param callers_rank the caller's rank numbers, by rank of the plan
    /// @param events gets a slice of the trace for each operation; must outlive this, like callers_rank
    message_operations(int own, const std::vector<int>& callers_rank, recorder& events)
        : own_(own), callers_rank_(callers_rank), events_(events) {}

    std::uint64_t begin(message_operation o);
    message_operation& operator[](std::uint64_t number) { return active_.at(number); }
    /// Ends an operation, and sets its result.
    void end(std::uint64_t number);
    bool done(std::uint64_t number) const noexcept { return !active_.contains(number); }
    bool empty() const noexcept { return active_.empty(); }

    /// Records the error of an operation.
    void fail(std::uint64_t number, std::string why) { errors_.emplace(number, std::move(why)); }
    bool has_failed(std::uint64_t number) const noexcept { return errors_.contains(number); }
    /// Returns the error of an operation that is done, only once; empty if there is none.
    std::string take_error(std::uint64_t number) {
        auto error = errors_.extract(number);
        return error.empty() ? std::string() : std::move(error.mapped());
    }

    int callers_rank(int rank) const noexcept { return callers_rank_[static_cast<std::size_t>(rank)]; }
    /// Records that a caller waits for an operation, for age() and add_waits(). Does nothing for number 0.
    void await(std::uint64_t number) {
        if (number != 0) awaited_.emplace(number, std::chrono::steady_clock::now());
    }
    void stop_awaiting(std::uint64_t number) noexcept { awaited_.erase(number); }
    /// Returns the longest time that a caller has waited for an operation in flight.
    std::chrono::duration<double> age() const noexcept;
    /// Adds the waits of all operations that callers wait for.
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
    std::map<std::uint64_t, std::chrono::steady_clock::time_point> awaited_;  // start of the wait, by number
    std::vector<bool> rows_;                                                  // true if in use, by row of the trace
};

}  // namespace terrace::detail
