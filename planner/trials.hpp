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

/// Simulated calls of one collective's candidates. Simulations show effects that no closed form has: stages of
/// different chunks that meet on one link and then keep step, and ranks that wait for unequal siblings. Only small
/// machines are simulated, since this costs little there (planner_policy::most_simulated).
class trials {
public:
    /// @param reproducible simulates reductions with options::reproducible
    explicit trials(const hierarchy& machine, bool reproducible = false);

    /// Returns the time of a call [s]: infinite if it is longer than `most`, nothing if a simulation would be too long.
    /// If there are many chunks, the first are simulated (planner_policy::simulated_chunks), and the others cost as
    /// much as the later ones of these. A call is not simulated if its price, times the ratio from a call of similar
    /// size, exceeds `most`.
    std::optional<double> time(const priced_candidate& c, const tuning& how, std::int64_t bytes,
                               double most = std::numeric_limits<double>::infinity());

    /// Begins a size, which may use a part of the remaining work (planner_policy::parts_of_work).
    void begin_size() noexcept { for_later_ = left_ - left_ / policy.parts_of_work; }

private:
    // A simulation. `time` is infinite if it was stopped since it took longer than `most`.
    struct trial {
        double time = 0, most = 0;  // [s]
    };

    // The last simulated call of a candidate, and its ratio of time to price, or a lower bound of the ratio.
    struct seen {
        std::int64_t bytes = 0;
        bool is_cut = false;
        double ratio = 1;
    };

    std::optional<double> extrapolated(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most);
    // Returns the time of a call that is simulated as a whole.
    std::optional<double> run(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most);

    const hierarchy& machine_;
    bool reproducible_;
    std::int64_t left_, for_later_ = 0;             // of planner_policy::most_simulated
    std::map<std::string, trial> known_;            // by candidate, lanes, chunk and bytes
    std::map<const priced_candidate*, seen> last_;  // last simulated call of each candidate
    std::optional<simulation_cache> cache_;         // created at the first simulation, since it has all links
};

}  // namespace terrace::detail
