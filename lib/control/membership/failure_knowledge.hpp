#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "transport/liveness.hpp"

namespace terrace::detail {

/// Something that a rank has found out about another one. Ranks are the plan's.
struct testimony_of_failure {
    int rank = 0;  ///< of which it is
    int by = 0;    ///< who has found it; `rank` itself where any rank would find the same
    evidence shows = evidence::process_ended;

    friend auto operator<=>(const testimony_of_failure&, const testimony_of_failure&) = default;
};

/// Ranks that have failed, and what shows it.
using failed_ranks = std::map<int, evidence>;

/// Returns who has failed by what is known. If two ranks cannot reach each other it is the one that is in most such
/// pairs; of two with equally many the one with fewer lines, since more of them are cut; then the one that fewer ranks
/// reach, then the higher one. So both sides of a cut say the same.
/// @param lines liveness::lines, by rank
failed_ranks judge(const std::set<testimony_of_failure>& known, const std::vector<int>& lines = {});

/// Returns a hash of testimonies, whatever their order.
std::uint64_t hash_of_all(const std::set<testimony_of_failure>& known) noexcept;

/// What a rank knows of failures, from itself and from others. It only grows.
class failure_knowledge {
public:
    using clock = std::chrono::steady_clock;

    /// Adds what has been found out.
    void add(const testimony_of_failure& t);
    const std::set<testimony_of_failure>& all() const noexcept { return all_; }
    /// Returns the same in the order of arrival.
    const std::vector<testimony_of_failure>& facts() const noexcept { return facts_; }
    std::uint64_t hash() const noexcept { return hash_; }
    /// Returns when something was added last, or changed() was set.
    clock::time_point changed() const noexcept { return changed_; }
    void set_changed() noexcept { changed_ = clock::now(); }
    /// Returns true if there are ranks that do not reach each other.
    bool has_pairs() const noexcept { return has_pairs_; }
    /// Returns true if a rank is one of these.
    bool is_in_a_pair(int rank) const;

private:
    std::set<testimony_of_failure> all_;
    std::vector<testimony_of_failure> facts_;
    bool has_pairs_ = false;
    std::uint64_t hash_ = 0;
    clock::time_point changed_{};
};

}  // namespace terrace::detail
