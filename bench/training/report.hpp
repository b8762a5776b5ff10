#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <terrace/plan.hpp>

#include "bench/measure/world.hpp"
#include "bench/modes.hpp"
#include "bench/training/model.hpp"
#include "bench/training/trainer.hpp"

namespace terrace::detail::bench {

/// What one variant did. Times are of an iteration, the maximum over ranks [s].
struct training_row {
    training_variant what;
    int buckets = 0;
    std::vector<double> times;           ///< by synchronisation: the mean of its iterations
    std::vector<double> ratios;          ///< by synchronisation: over that of the first row
    std::vector<double> communications;  ///< while buckets were in flight
    std::vector<double> exposed;         ///< of that, after the backward pass
    double processor = 0;                ///< part of the time in which the busiest rank had a core
    double bound = 0;                    ///< that no schedule of messages can beat
    std::optional<std::int64_t> wrong;   ///< gradients over all ranks; nothing if unchecked
};

/// What all rows have in common.
struct training_conditions {
    const world& ranks;
    const training_settings& asked;
    const plan& chosen;
    const training_model& model;  ///< scaled
    bool rounds_on_wire;          ///< options::rounds_on_wire
    std::string date;             ///< ISO 8601, UTC
};

/// Returns "25 MiB", "all" or "automatic".
std::string bucket_text(std::int64_t bucket_bytes);

std::string to_text(const training_conditions& c, std::span<const training_row> rows);
std::string to_json(const training_conditions& c, std::span<const training_row> rows);

}  // namespace terrace::detail::bench
