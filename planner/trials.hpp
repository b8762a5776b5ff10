#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "planner/policy.hpp"
#include "planner/search.hpp"
#include "planner/simulate/simulate.hpp"
#include "planner/tuning.hpp"

namespace terrace::detail {

/// Simulated calls of one collective's candidates. Simulations see what no closed form does: stages of different chunks
/// that meet on one link and from then on keep step, and ranks that wait for unequal siblings. Only small machines are
/// simulated, in which that costs next to nothing (planner_policy::most_simulated).
class trials {
public:
    /// @param reproducible the calls' reductions are those of options::reproducible
    explicit trials(const hierarchy& machine, bool reproducible = false);

    /// Returns the time of a call [s], infinite if it is longer than `most`, or nothing where a simulation would be too
    /// long. Of many chunks the first ones are simulated (planner_policy::simulated_chunks), and each of the others
    /// costs as much as one of the later of these. Nothing is simulated if the call would be longer than `most` if it
    /// exceeded its price as much as one of nearly its size did.
    std::optional<double> time(const priced_candidate& c, const tuning& how, std::int64_t bytes,
                               double most = std::numeric_limits<double>::infinity());

    /// Begins a size: it may use a part of what is left (planner_policy::parts_of_work).
    void begin_size() noexcept { for_later_ = left_ - left_ / policy.parts_of_work; }

private:
    // A simulation that was given up, with an infinite time, where it took longer than `most`.
    struct trial {
        double time = 0, most = 0;  // [s]
    };

    // A call, and how many times its price it took at least.
    struct seen {
        std::int64_t bytes = 0;
        bool is_cut = false;
        double ratio = 1;
    };

    std::optional<double> extrapolated(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most);
    // The time of a call of which all is simulated.
    std::optional<double> run(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most);

    const hierarchy& machine_;
    bool reproducible_;
    std::int64_t left_, for_later_ = 0;             // of planner_policy::most_simulated
    std::map<std::string, trial> known_;            // by candidate, lanes, chunk and bytes
    std::map<const priced_candidate*, seen> last_;  // that was simulated
    std::optional<simulation_cache> cache_;         // nothing where nothing is simulated: it has all links
};

}  // namespace terrace::detail
