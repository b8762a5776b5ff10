#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/call_order/signature.hpp"
#include "executor/call_stamp.hpp"

namespace terrace::detail {

/// The calls that a rank has made, by number from 1, of which it remembers the last ones.
class call_history {
public:
    struct record {
        std::uint64_t number = 0;
        std::uint64_t before = 0;  ///< hash over all calls before it
        std::uint64_t after = 0;   ///< the same with it
        call_shape call;
        std::string words;  ///< instead of a call
    };

    /// Adds a call. Its record has its numbers alone.
    record& add(std::uint64_t signature);
    /// Returns the number of the last call.
    std::uint64_t calls() const noexcept { return calls_; }
    /// Returns the hash over all calls.
    std::uint64_t hash() const noexcept { return hash_; }
    /// Returns the record of a call; of another one if it is no longer remembered.
    const record& at(std::uint64_t call) const noexcept { return recent_[call & (remembered - 1)]; }
    /// Returns a call in words.
    std::string text_of(std::uint64_t call) const;

    /// The number of calls that are remembered: a rank may be ahead of others where it waits for none of them.
    static constexpr std::size_t remembered = 64;
    /// Returns the stamps of these, in no order; number 0 where there is none.
    std::array<call_stamp, remembered> stamps() const noexcept;

private:
    std::uint64_t calls_ = 0, hash_ = 0;
    std::array<record, remembered> recent_;
};

/// Returns the first call at which ranks came apart, if all still know it; else `otherwise`.
/// @param all the stamps of all ranks
std::uint64_t earliest_difference(const std::vector<call_stamp>& all, std::size_t ranks, std::uint64_t otherwise);

/// Which ranks have been told the stamp of a call that waits for them. A rank is told one at a time: it may compute for
/// long, again and again, and then finds no more than one of each other rank.
class told_stamps {
public:
    /// @param patience how long a call waits until its stamp is told
    explicit told_stamps(std::chrono::duration<double> patience) noexcept : patience_(patience) {}

    /// Returns true if it is time for a rank that has waited so long in a call to tell its stamp.
    bool is_time(std::chrono::duration<double> waited) noexcept {
        const auto now = clock::now();
        if (waited < patience_ || now < next_) return false;
        next_ = now + std::chrono::duration_cast<clock::duration>(patience_ / 4);
        return true;
    }
    /// Returns true if a rank is to be told the stamp of a call, and takes it for told.
    bool tell(int rank, std::uint64_t call) {
        if (unread_.contains(rank) || std::exchange(last_[rank], call) == call) return false;
        unread_.insert(rank);
        return true;
    }
    /// Follows the answer of a rank.
    void read_by(int rank) { unread_.erase(rank); }
    /// Returns true if a stamp may still be under way to a rank that does not read it.
    bool is_open() const noexcept { return !unread_.empty(); }

private:
    using clock = std::chrono::steady_clock;

    std::chrono::duration<double> patience_;
    std::set<int> unread_;               // ranks that have not answered
    std::map<int, std::uint64_t> last_;  // call, by rank
    clock::time_point next_{};
};

}  // namespace terrace::detail
