#include "bench/training/bound.hpp"

#include <algorithm>

namespace terrace::detail::bench {

double iteration_bound(const training_model& m, std::int64_t element,
                       const std::function<double(std::int64_t)>& limit) {
    // From the last gradient that is ready, which is the first layer's, to the first one.
    double ready = m.compute(), bound = ready;
    std::int64_t bytes = 0;
    for (const model_layer& l : m.layers) {
        bytes += l.parameters * element;
        bound = std::max(bound, ready + limit(bytes));
        ready -= l.backward;
    }
    return bound;
}

}  // namespace terrace::detail::bench
