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

/// One way to train, which has a row of the results.
struct training_variant {
    std::string algorithm;
    std::int64_t bucket_bytes = 0;  ///< before scaling, or a special size of training_settings
    bool overlap = true;
    int every = 1;
    int communicators = 1;
};

/// A rank that trains a model in one way. Layers compute by waiting, as for an accelerator: meanwhile the rank sends,
/// receives and reduces. Waiting uses no core.
class trainer {
public:
    /// Collective. @param m must outlive the trainer
    trainer(const setting& s, const training_model& m, const training_variant& v, const training_settings& asked);

    /// Runs `every` iterations, the last of which synchronises. Returns the mean time of an iteration on this rank [s].
    /// Collective.
    double run();
    /// Calls run() with gradients of known results. Returns the number of wrong elements on this rank. Collective.
    std::int64_t wrong_elements();

    int buckets() const noexcept { return reducer_->buckets(); }
    /// Returns the times of the last synchronised iteration. Collective.
    gradient_times statistics() { return reducer_->statistics(); }

private:
    using clock = std::chrono::steady_clock;

    void iterate();
    void wait_until(clock::time_point deadline);

    const world& world_;
    const training_model& model_;
    training_variant what_;
    double rounding_ = 0;  // error bound of a result, relative to the largest gradient
    std::vector<communicator> comms_;
    std::optional<gradient_reducer> reducer_;
};

}  // namespace terrace::detail::bench
