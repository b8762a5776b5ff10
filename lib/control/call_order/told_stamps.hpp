#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace terrace::detail {

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
