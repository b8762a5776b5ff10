#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <terrace/gradients.hpp>

#include "bench/measure/backend.hpp"
#include "bench/modes.hpp"
#include "bench/training/model.hpp"

namespace terrace::detail::bench {

/// One way to train: what a row is about.
struct training_variant {
    std::string algorithm;
    std::int64_t bucket_bytes = 0;  ///< before it is scaled, or one of training_settings
    bool overlap = true;
    int every = 1;
    int communicators = 1;
};

/// A rank that trains a model in one way. Layers compute by waiting, as on an accelerator: their time passes while the
/// rank sends, receives and reduces, and takes no core.
class trainer {
public:
    /// Collective. @param m must outlive this
    trainer(const setting& s, const training_model& m, const training_variant& v, const training_settings& asked);

    /// Runs `every` iterations, the last of which synchronises. Returns the mean time of one on this rank [s].
    /// Collective.
    double run();
    /// Runs them with gradients of known results. Returns how many elements are wrong on this rank. Collective.
    std::int64_t wrong_elements();

    int buckets() const noexcept { return reducer_->buckets(); }
    /// Returns where the time of the last synchronised iteration went. Collective.
    gradient_times statistics() { return reducer_->statistics(); }

private:
    using clock = std::chrono::steady_clock;

    void iterate();
    void wait_until(clock::time_point deadline);

    const world& world_;
    const training_model& model_;
    training_variant what_;
    double rounding_ = 0;  // of a result, relative to the largest gradient
    std::vector<communicator> comms_;
    std::optional<gradient_reducer> reducer_;
};

}  // namespace terrace::detail::bench
