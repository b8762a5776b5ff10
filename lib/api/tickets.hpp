#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <optional>

namespace terrace::detail {

/// What has become of calls that do not begin when they are made: by ticket, until their requests have been told.
class tickets {
public:
    /// Returns the next ticket, from 1.
    std::uint64_t take() {
        open_.emplace_back();
        return next() - 1;
    }
    /// Lets one more request ask for the same: close() is called as often.
    void share(std::uint64_t ticket) noexcept { ++of(ticket).holders; }
    /// Returns the ticket that take() gives next.
    std::uint64_t next() const noexcept { return first_ + open_.size(); }
    /// Says that the call has begun. @param call its number, 0 where there was nothing to do   @param error why it
    /// could not; null: none
    void begin(std::uint64_t ticket, std::uint64_t call, std::exception_ptr error) {
        state& s = of(ticket);
        s.call = call;
        s.error = std::move(error);
        forget();
    }
    /// Returns the number of the call; nothing while it has not begun.
    std::optional<std::uint64_t> call_of(std::uint64_t ticket) const noexcept {
        return ticket < first_ ? 0 : open_[ticket - first_].call;
    }
    /// Says that a request asks no more. Returns why the call could not begin, or null.
    std::exception_ptr close(std::uint64_t ticket) {
        state& s = of(ticket);
        --s.holders;
        std::exception_ptr error = s.error;
        forget();
        return error;
    }

private:
    struct state {
        std::optional<std::uint64_t> call;
        std::exception_ptr error;
        int holders = 1;
    };
    state& of(std::uint64_t ticket) noexcept { return open_[ticket - first_]; }
    void forget() {
        for (; !open_.empty() && open_.front().holders == 0 && open_.front().call; ++first_) open_.pop_front();
    }

    std::uint64_t first_ = 1;
    std::deque<state> open_;  // from ticket first_ on
};

}  // namespace terrace::detail
