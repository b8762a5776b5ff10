#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/buffer.hpp"
#include "bench/contender.hpp"
#include "bench/exact.hpp"
#include "bench/progress.hpp"
#include "bench/settings.hpp"
#include "bench/world.hpp"

namespace terrace::bench {

/// What one contender did at one size.
struct row {
    std::string algorithm;
    bool in_place = false;
    description how;
    std::int64_t count = 0, bytes = 0;
    std::vector<double> times;          ///< by iteration, the maximum over ranks [s]
    std::optional<std::int64_t> wrong;  ///< elements over all ranks; nothing if unchecked

    /// The time that `part` (0 ... 1) of the iterations stay below or at; interpolated.
    double quantile(double part) const;
    double median() const { return quantile(0.5); }
};

/// Lets contenders run. Iterations alternate over all of them (A B C A B C ...), so that what else happens on the
/// machine hits all alike.
class runner {
public:
    struct entrant {
        std::string name;
        std::unique_ptr<contender> what;
    };

    runner(const world& w, const settings& s, std::vector<entrant> entrants);

    /// Collective; the same result on all ranks.
    std::vector<row> measure(std::int64_t count, progress& shown);

private:
    /// Time of one call on this rank [s]. Adds wrong elements to `wrong`; null: does not look.
    double time_call(contender& c, std::int64_t count, std::int64_t* wrong);

    const world& world_;
    const settings& settings_;
    std::vector<entrant> entrants_;
    exact_data data_;
    buffer input_, output_;
};

}  // namespace terrace::bench
