#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/backend.hpp"
#include "bench/measure/exact.hpp"
#include "bench/measure/memory.hpp"
#include "bench/measure/world.hpp"
#include "bench/report/figures.hpp"
#include "bench/settings.hpp"
#include "tools/common/progress.hpp"

namespace terrace::detail::bench {

/// The results of one back end at one size.
struct row {
    std::string algorithm;
    collective what = collective::allreduce;
    bool in_place = false;
    description how;
    std::int64_t count = 0, bytes = 0;       ///< as nccl-tests count them
    std::vector<double> times = {};          ///< by iteration, the maximum over ranks [s]
    std::vector<double> ratios = {};         ///< by iteration, this time over that of the reference; empty without one
    std::optional<std::int64_t> wrong = {};  ///< wrong elements over all ranks; nothing if unchecked
    /// Processor time that the hypervisor took while this size was measured, on the host that lost most [%]. Nothing if
    /// no host reports it.
    std::optional<double> percent_steal_time = {};
    /// Mean number of busy cores: processor time of all ranks in the timed calls, divided by the time of these calls.
    /// Ranks that spin or yield count as busy.
    double cores = 0;

    double median() const { return quantile(times, 0.5); }
};

/// Measures one collective with several back ends. Their iterations alternate (order_of_round), so other work on the
/// machine affects all alike.
class runner {
public:
    struct named_backend {
        std::string name;
        std::unique_ptr<backend> what;
    };

    /// @param where must outlive this
    runner(const world& w, const settings& s, memory& where, collective what, std::vector<named_backend> backends);

    /// Measures a size. Collective; the same result on all ranks.
    std::vector<row> measure(std::int64_t count, progress& shown);

private:
    /// Returns the time of a call on this rank [s]. Adds wrong elements to `wrong`; null: no check.
    double time_call(std::size_t which, std::int64_t count, std::int64_t* wrong);
    call prepare(std::size_t which, int number, std::int64_t count, bool spoiled);
    std::int64_t wrong_elements(const call& c, double rounding);
    bool is_root() const noexcept { return world_.rank() == settings_.root; }

    const world& world_;
    const settings& settings_;
    memory& where_;
    collective what_;
    std::size_t element_;
    std::vector<named_backend> backends_;
    exact_data data_;
    struct buffers {
        std::shared_ptr<std::byte> input, output;
    };
    std::vector<buffers> memory_;  // by back end; most share one
    std::vector<call> calls_;      // calls of one iteration
    double in_last_call_ = 0;      // processor time on this rank [s]
};

}  // namespace terrace::detail::bench
