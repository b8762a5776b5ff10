#include "bench/training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include <terrace/ucx.hpp>

#include "bench/measure/mpi_backend.hpp"
#include "plan/plan_access.hpp"

namespace terrace::detail::bench {

namespace {

constexpr std::chrono::microseconds poll_interval{100};  // while gradients travel

// Gradients for checks: rank r has the value of rank 0 plus r, at most `largest` plus the number of ranks.
constexpr int largest = 240;
float value_of(int parameter, std::size_t i) {
    return static_cast<float>((i * 31 + static_cast<std::size_t>(parameter) * 7) % (largest + 1));
}

gradient_options options_of(const training_variant& v, std::int64_t all, const training_settings& asked) {
    const auto size = [&](std::int64_t bytes) { return std::llround(static_cast<double>(bytes) * asked.scale); };
    gradient_options o;
    o.error_feedback = asked.error_feedback;
    o.bucket_bytes = size(v.bucket_bytes);
    o.first_bucket_bytes = size(o.first_bucket_bytes);
    if (v.bucket_bytes == training_settings::all) o.bucket_bytes = o.first_bucket_bytes = all;
    if (v.bucket_bytes == training_settings::automatic) o.bucket_bytes = gradient_options::automatic;
    return o;
}

}  // namespace

trainer::trainer(const setting& s, const training_model& m, const training_variant& v, const training_settings& asked)
    : world_(s.ranks), model_(m), what_(v) {
    const plan p = plan_with(v.algorithm, s.chosen, collective::allreduce);
    for (int i = 0; i < v.communicators; ++i) comms_.push_back(s.ucx ? ucx::create(p, s.how) : create_over_mpi(s, p));
    std::vector<communicator*> all;
    for (communicator& c : comms_) all.push_back(&c);
    std::vector<gradient_parameter> parameters;
    for (const model_layer& l : m.layers) parameters.push_back({l.name, l.parameters});
    const auto bytes = m.parameters() * static_cast<std::int64_t>(sizeof(float));
    reducer_.emplace(all, std::move(parameters), options_of(v, bytes, asked));
    if (s.how.rounds_on_wire)
        for (const rule& r : data_of(p).rules.at(collective::allreduce))
            rounding_ = std::max(rounding_, rounding_error(r.stages) * (asked.error_feedback ? 2 : 1));
}

void trainer::wait_until(clock::time_point deadline) {
    for (clock::time_point now = clock::now(); now < deadline; now = clock::now()) {
        const bool idle = !what_.overlap || reducer_->poll();
        std::this_thread::sleep_until(idle ? deadline : std::min(deadline, now + poll_interval));
    }
}

void trainer::iterate() {
    const clock::time_point begin = clock::now();
    double computed = 0;
    for (const model_layer& l : model_.layers) computed += l.forward;
    const int layers = static_cast<int>(model_.layers.size());
    for (int l = layers - 1; l >= 0; --l) {
        computed += model_.layers[static_cast<std::size_t>(l)].backward;
        wait_until(begin + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(computed)));
        if (what_.overlap) reducer_->ready(l);
    }
    for (int l = layers - 1; l >= 0 && !what_.overlap; --l) reducer_->ready(l);
    reducer_->finish();
}

double trainer::run() {
    world_.barrier();
    const clock::time_point begin = clock::now();
    for (int i = 1; i < what_.every; ++i) {
        const local_iterations guard = reducer_->no_sync();
        iterate();
    }
    iterate();
    const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
    world_.barrier();
    return seconds / what_.every;
}

std::int64_t trainer::wrong_elements() {
    const int layers = static_cast<int>(model_.layers.size());
    for (int l = 0; l < layers; ++l) {
        const std::span<float> g = reducer_->gradient<float>(l);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = value_of(l, i) + static_cast<float>(world_.rank());
    }
    run();
    const double tolerance = (largest + world_.size()) * (1e-6 + rounding_);
    const double mean_rank = (world_.size() - 1) / 2.0;
    std::int64_t wrong = 0;
    for (int l = 0; l < layers; ++l) {
        const std::span<const float> g = reducer_->gradient<float>(l);
        for (std::size_t i = 0; i < g.size(); ++i)
            wrong += !(std::abs(g[i] - (value_of(l, i) + mean_rank)) <= tolerance);
    }
    return wrong;
}

}  // namespace terrace::detail::bench
