#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::detail::bench {

/// A parameter of a network, and the compute time of its layer.
struct model_layer {
    std::string name;
    std::int64_t parameters = 0;
    double forward = 0;   ///< [s]
    double backward = 0;  ///< [s]; the gradient is ready at its end
};

/// A network to train: its layers in the order of the forward pass.
struct training_model {
    std::string name;
    std::vector<model_layer> layers;

    std::int64_t parameters() const {
        std::int64_t sum = 0;
        for (const model_layer& l : layers) sum += l.parameters;
        return sum;
    }
    /// Returns the time of one forward and one backward pass [s].
    double compute() const {
        double sum = 0;
        for (const model_layer& l : layers) sum += l.forward + l.backward;
        return sum;
    }
};

/// Returns the names that built_in_model() accepts.
std::span<const std::string_view> built_in_models() noexcept;
/// Returns a network as published by its authors. The compute time of a layer is that of its multiplications and
/// additions at 10 TFLOP/s: once forward, twice backward. Normalisations and biases cost no time.
training_model built_in_model(std::string_view name);
/// Reads a model. A line of the file is a layer: name, parameters, forward [ms], backward [ms], separated by commas.
/// Text after a # is a comment. @throws input_error
training_model read_model(const std::filesystem::path& file);

/// Returns the model with parameters and times multiplied by `scale`; a layer keeps one parameter at least.
/// @param slower another factor of the times
training_model scaled(training_model m, double scale, double slower);

/// Returns a lower bound of an iteration [s]: gradients that are not ready at a time travel after that time, no faster
/// than the links allow. It is the maximum of the compute time and, over all gradients k, of
///
///     time at which gradient k is ready + limit(bytes of gradient k and of all that become ready after it)
///
/// @param element bytes of an element   @param limit lower bound of an allreduce of this many bytes [s]
double iteration_bound(const training_model& m, std::int64_t element, const std::function<double(std::int64_t)>& limit);

}  // namespace terrace::detail::bench
