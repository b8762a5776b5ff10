#pragma once

#include <optional>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <terrace/plan.hpp>

#include "bench/device/gpu.hpp"
#include "bench/measure/link_limits.hpp"
#include "bench/measure/runner.hpp"
#include "bench/measure/world.hpp"
#include "bench/settings.hpp"

namespace terrace::detail::bench {

/// What all rows of a run have in common.
struct conditions {
    const world& ranks;
    const settings& asked;
    const plan& chosen;
    const link_limits& against;
    std::string date;             ///< ISO 8601, UTC
    const gpu* device = nullptr;  ///< that has the buffers; null: the host has
};

/// What follows from a row.
struct figures {
    double time = 0;   ///< [s]
    double algbw = 0;  ///< [GB/s], as nccl-tests define it
    double busbw = 0;
    std::optional<double> percent_of_limit, percent_of_goodput, percent_of_bus;
};
figures figures_of(const conditions& c, const row& r);

/// A backend that a collective does without.
struct absence {
    collective what;
    std::string algorithm;
    std::string why;
};

// For people: what stands above all, and above the rows of one collective; the rows of one size; and what they come to
// at the largest size.
std::string header_text(const conditions& c);
std::string heading_text(const conditions& c, collective what, std::span<const absence> absent);
std::string rows_text(const conditions& c, std::span<const row> rows);
std::string verdict_text(const conditions& c, collective what, std::span<const row> rows);

/// For programs: times in microseconds, and what results of any kind begin with.
nlohmann::ordered_json microseconds_of(std::span<const double> times);
nlohmann::ordered_json head_of(const world& ranks, const plan& chosen, const std::string& date,
                               options::placement place, bool ucx, int warmup);
/// For programs: everything, as a JSON object.
std::string to_json(const conditions& c, std::span<const row> rows, std::span<const absence> absent);

}  // namespace terrace::detail::bench
