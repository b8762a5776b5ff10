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

/// The common data of all rows of a run.
struct conditions {
    const world& ranks;
    const settings& asked;
    const plan& chosen;
    const link_limits& against;
    std::string date;             ///< ISO 8601, UTC
    const gpu* device = nullptr;  ///< GPU with the buffers; null: they are in host memory
};

/// Figures derived from a row.
struct figures {
    double time = 0;   ///< [s]
    double algbw = 0;  ///< [GB/s], as nccl-tests define it
    double busbw = 0;
    std::optional<double> percent_of_limit, percent_of_goodput, percent_of_bus;
};
figures figures_of(const conditions& c, const row& r);

/// A back end that is missing from a collective.
struct absence {
    collective what;
    std::string algorithm;
    std::string why;
};

// Texts for people: the header of all results, the heading of a collective, the rows of one size, and a summary of the
// largest size.
std::string header_text(const conditions& c);
std::string heading_text(const conditions& c, collective what, std::span<const absence> absent);
std::string rows_text(const conditions& c, std::span<const row> rows);
std::string verdict_text(const conditions& c, collective what, std::span<const row> rows);

/// JSON for programs: times in microseconds, and the head of results of any kind.
nlohmann::ordered_json microseconds_of(std::span<const double> times);
nlohmann::ordered_json head_of(const world& ranks, const plan& chosen, const std::string& date,
                               options::placement place, bool ucx, int warmup);
/// Returns all results for programs, as a JSON object.
std::string to_json(const conditions& c, std::span<const row> rows, std::span<const absence> absent);

}  // namespace terrace::detail::bench
